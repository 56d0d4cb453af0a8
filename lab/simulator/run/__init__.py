"""One run of a scenario: virtual time, network, simulated workers and the service around them."""
