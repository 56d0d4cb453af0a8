"""Facts about an estate: what brokers, bookies and Redis answer, and the switches that change them. All are asked at
once, each within the same limit; the answers stay as they came."""
