"""Figures from the registry, drawn with rich, for `fairlane top`, `fairlane tier show` and the demo."""
