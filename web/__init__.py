"""The front door over HTTP: the API under `/v1`. It asks `producers.desk`, and knows no other way into the service."""
