"""What a user asks of a scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from oneglance.config import SamplingParams
from oneglance.control.length import DraftLengthSpec
from oneglance.decode.watch import PassWatcher
from oneglance.drafters.base import DraftHints
from oneglance.errors import ParameterError


@dataclass(frozen=True)
class Drafting:
    """Who drafts for a request, and how much; None: as the scheduler's owner has set it.

    Attributes:
        drafter: name of the drafter; "none" switches speculation off.
        k: draft tokens on a path, or "auto".
        tree_nodes: draft tokens per pass on all branches together.
    """

    drafter: str | None = None
    k: DraftLengthSpec | None = None
    tree_nodes: int | None = None


@dataclass(frozen=True)
class Request:
    """One answer that is wanted.

    Attributes:
        prompt: token ids.
        params: the law that the answer is drawn from, and when it ends.
        drafting: who drafts; it changes no token.
        hints: for the drafter: a prediction, and whose request it is.
        priority: higher ones go first; see `SchedulerConfig.ageing_seconds`.
        deadline_seconds: from submission until the request is given up; None: it may take as long
            as it takes.
        prefix_group: requests of the same group may begin with each other's cached prefixes. How
            soon an answer comes tells whether its prompt was cached, so who must not learn of
            another's prompts needs a group of its own.
        watcher: is shown every pass of the answer, in the scheduler's thread, before the piece that
            it gave is delivered; None: nobody looks on, which costs nothing.
    """

    prompt: tuple[int, ...]
    params: SamplingParams = SamplingParams()
    drafting: Drafting = Drafting()
    hints: DraftHints = DraftHints()
    priority: int = 0
    deadline_seconds: float | None = None
    prefix_group: str = ""
    watcher: PassWatcher | None = None

    def __post_init__(self) -> None:
        """Refuses what has no meaning.

        Raises:
            ParameterError: the priority is no whole number, or the deadline not above 0.
        """
        if isinstance(self.priority, bool) or not isinstance(self.priority, int):
            raise ParameterError(
                f"priority = {self.priority!r} cannot be used; it must be a whole number."
            )
        if self.deadline_seconds is not None and not self.deadline_seconds > 0:
            raise ParameterError(
                f"deadline_seconds = {self.deadline_seconds!r} cannot be used; it must be above 0."
            )
