"""Commands of the laboratory: stack, demo, fake, simulate."""
