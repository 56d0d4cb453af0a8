"""Dead letters and invalid targets: list them, send dead letters again, drop them."""
