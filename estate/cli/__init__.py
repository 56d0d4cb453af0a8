"""`fairlane estate`: brokers, bookies and metadata under the service."""
