"""A Redis in memory that runs the scripts that ship. It knows nothing of Fairlane but the commands its scripts use."""
