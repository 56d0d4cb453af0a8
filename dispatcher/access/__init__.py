"""Who may do what: principals, their scopes, the table of actions, keys and the policies of apps. No I/O.

`producers/desk` applies it; workers need none of it.
"""
