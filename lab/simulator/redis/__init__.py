"""An in-memory Redis that runs the scripts that ship.

It knows nothing of Fairlane except the commands its scripts use.
"""
