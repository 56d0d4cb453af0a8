"""The Pulsar estate under the service, as pure rules: what a look at it showed, what is wrong, what to move or isolate.

Nothing here asks a server, waits, or reads a clock. `backends.pulsar.estate` asks the brokers and bookies, and
`fairlane.estate` carries out what is decided here.
"""
