"""The guard: looks at the estate at intervals, takes slow nodes out of service and puts them back."""
