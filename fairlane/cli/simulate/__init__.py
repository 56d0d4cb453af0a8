"""`fairlane simulate`: runs of scenarios, and simulations of parts of Pulsar and BookKeeper. No server is needed."""
