"""How many tokens to draft for the next pass."""
