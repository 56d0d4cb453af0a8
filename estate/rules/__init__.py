"""Rules of CHECK: what is wrong with an estate, or will be when a node is lost. `check.py` applies all of them."""
