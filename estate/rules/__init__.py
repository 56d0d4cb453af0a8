"""Rules, pure: what a look at an estate showed, what is wrong with it, or will be when a node is lost.

`check.py` applies the rules of `doctor`, `slow_nodes.py` those of the guard."""
