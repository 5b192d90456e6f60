"""From logits to a token: the warped law, and the randomness that a token is drawn with."""
