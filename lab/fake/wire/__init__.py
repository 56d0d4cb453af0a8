"""HTTP/2 and HTTP/1.1 over TLS. Nothing here knows a provider."""
