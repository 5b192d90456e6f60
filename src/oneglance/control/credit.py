"""How much speculation may cost a request that it does not help."""

from __future__ import annotations


class Credit:
    """What may still be spent on drafts, in tokens of plain decoding.

    Estimates can be wrong, and text can turn against them. So a draft is paid for in advance: its
    rows cost what plain decoding would have delivered in their time, and what is kept of it is
    income. Each pass adds a little, and a request begins with a little. A request without a
    single hit is thus slowed down by no more than that share and that beginning (conservative
    exploration, Wu et al., arXiv:1602.04282), and one that gained can afford more.
    """

    def __init__(self, tokens: float = 1.0, per_pass: float = 0.015) -> None:
        """Begins with so many tokens; each pass adds `per_pass`."""
        self.tokens = tokens
        self._per_pass = per_pass

    def note_pass(self, num_kept: int = 0, price: float = 0.0) -> None:
        """Books one pass.

        Args:
            num_kept: draft tokens that were delivered.
            price: tokens that plain decoding would have delivered in the time of the draft and of
                its rows.
        """
        self.tokens += self._per_pass + num_kept - price

    def pay(self, price: float) -> bool:
        """Spends `price` if there is as much, and tells whether there was."""
        is_enough = price <= self.tokens
        self.tokens -= price if is_enough else 0.0
        return is_enough
