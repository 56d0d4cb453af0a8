"""The local stack: a real Pulsar and a real Redis (or Valkey) for one machine, kept under one directory."""
