"""Spark sessions for Fairlane's jobs: options, packages for executors, servers, errors in Fairlane's words."""
