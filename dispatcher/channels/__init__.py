"""Knowledge about providers that needs no connection: limits, verdict tables, checks, rendering.

Submission, workers, commands and fakes use the same rules. Connections and credentials do not belong here: they are in
consumers/delivery.
"""
