"""Rules of captures: what is an incident, which lanes are recorded.

`fairlane.estate.capture` asks the servers and writes the archives.
"""
