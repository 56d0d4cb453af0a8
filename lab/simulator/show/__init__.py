"""Show a run as tables, and as a page with pictures. Only `fairlane` draws on a terminal."""
