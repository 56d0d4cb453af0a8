"""The Pulsar estate, looked at and acted on: what `estate` decides is carried out here."""
