"""What `fairlane top`, `fairlane tier show` and the demo show: figures taken from the registry, drawn with rich."""
