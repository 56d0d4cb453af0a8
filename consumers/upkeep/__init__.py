"""Jobs that one worker does for all: folds, rebuild, snapshots, ends of claims and tasks, housekeeping."""
