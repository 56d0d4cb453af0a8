"""Rules of captures: what is an incident, which lanes are recorded, how much of each text is kept.

`fairlane.estate.capture` asks the servers and writes the archives.
"""
