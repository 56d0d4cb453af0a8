"""The built-in channels: null, log and http. Each is one class behind dispatcher.ports.BatchChannel."""
