"""`fairlane simulate`: runs of scenarios, and models of the Pulsar estate. No server is needed."""
