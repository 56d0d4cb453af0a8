"""Messages and records as stored: their fields, encodings and checks, and the names of topics. No decisions."""
