"""Plans of moves, as pure rules: which bundle goes to which broker. No I/O."""
