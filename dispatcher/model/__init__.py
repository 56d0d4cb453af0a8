"""The data model that all packages share: tasks, tiers, settings and the view. It knows no server and no engine."""
