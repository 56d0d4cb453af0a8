"""Messages and records as they are stored: their fields, encodings and checks, and the names of topics. No behavior."""
