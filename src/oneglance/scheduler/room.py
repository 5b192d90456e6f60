"""Room in the target's cache: how much one request can have, and who gives way to whom."""

from __future__ import annotations

from collections.abc import Mapping

from oneglance.engine.base import Engine, SequenceId
from oneglance.engine.prefix import PrefixStore
from oneglance.errors import CapacityError


def max_positions(target: Engine) -> int | None:
    """The most positions that a request can have if it is alone; None: the model's context."""
    use = target.page_use
    return None if use is None or use.limit is None else use.limit * use.page_size


def check_room(target: Engine, num_prompt: int) -> None:
    """Refuses a prompt that leaves no room for an answer.

    Raises:
        CapacityError: names both sizes.
    """
    most = max_positions(target)
    if most is not None and num_prompt >= most:
        raise CapacityError(
            f"The prompt has {num_prompt} tokens and the cache has room for {most} positions; "
            f"shorten the prompt to {most - 1} tokens or fewer, or raise num_pages."
        )


def make_room(target: Engine, prefixes: PrefixStore, num_rows: Mapping[SequenceId, int]) -> bool:
    """Lets go of kept prefixes until a pass has the pages that it needs.

    Args:
        target: whose pages they are.
        prefixes: what is kept.
        num_rows: of each sequence.

    Returns:
        Whether it has them; if not, nothing is kept any more.
    """
    while target.num_missing_pages(num_rows) > 0:
        if not prefixes.evict():
            return False
    return True
