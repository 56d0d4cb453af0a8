"""The state of dead letters: marks that say they were sent again or dropped, and what follows from them.

The form of a letter itself is in dispatcher/wire.
"""
