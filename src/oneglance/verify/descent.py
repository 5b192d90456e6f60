"""The walk that greedy, coupled and point-mass rules share: the target chooses, drafts agree."""

from __future__ import annotations

from collections.abc import Callable

from oneglance.types import ROOT, Proposal
from oneglance.verify.base import Acceptance


def descend(proposal: Proposal, choose: Callable[[int, int], int]) -> Acceptance:
    """Follows the target's own choices down the tree for as long as they were drafted.

    At each node the target chooses a token y. If a child carries y, y is kept and the walk goes
    on there (at the first such child, where a drafter drew one twice); otherwise y ends the pass.

    Args:
        proposal: any tree; its laws are not looked at.
        choose: given a node and its depth (0 for `ROOT`), the target's token after it.
    """
    node = ROOT
    path: list[int] = []
    tokens = proposal.tokens.tolist()
    while True:
        token = choose(node, len(path))
        agreeing = [child for child in proposal.children(node) if tokens[child] == token]
        if not agreeing:
            return Acceptance.after(proposal, path, token)
        node = agreeing[0]
        path.append(node)
