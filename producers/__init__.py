"""Put tasks into lanes: the public Python API, cutting audiences into envelopes, publishing, and changes of tasks.

Nothing here sends to a provider or draws on a terminal; the commands are in `fairlane.cli`.
"""
