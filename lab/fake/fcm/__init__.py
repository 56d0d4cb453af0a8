"""Firebase Cloud Messaging, HTTP v1, with the token endpoint of its service accounts."""
