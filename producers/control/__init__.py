"""Changes of live tasks and of the whole service, and previews of their effect."""
