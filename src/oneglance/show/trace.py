"""The trace of an answer: the one definition of what is recorded and drawn.

Whatever draws an answer (the terminal, the page, the still picture) reads a `Trace`, or its JSON
(`trace_json.py`), which has the same fields under the same names, and nothing else. Probabilities
are numbers from 0 to 1, times are seconds, nodes are indices, `ROOT` (−1) the last token that was
decided before a pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from oneglance.types import ROOT, TokenKind

Fate = Literal["kept", "wrong", "behind", "unused"]
"""What became of a drafted token: it is in the answer; the target rejected it; it hangs off a
branch that was left; the answer had ended before it."""


@dataclass(frozen=True)
class Considered:
    """A token that the target held possible at some place.

    Attributes:
        token: its id.
        shown: its text, made visible.
        prob: the model's own probability of it there, at temperature 1.
    """

    token: int
    shown: str
    prob: float


@dataclass(frozen=True)
class DraftNode:
    """One drafted token.

    Attributes:
        token: its id.
        text: what it adds to the text that leads to it; empty for control tokens and for the
            beginning of a character.
        shown: what to draw; never empty.
        parent: index of the node it hangs off, `ROOT` for the first level.
        depth: 1 for the first level.
        drafter: who made it.
        fate: what became of it.
        draft_prob: probability in the law that it was drawn from; None: the drafter reported no
            law, as its token follows from the text alone or was drawn with the target's own noise
            (every request with a seed).
        target_prob: the target's own probability of it at its place, at temperature 1.
        law_prob: the same after temperature and cuts, by which it was judged; None where the
            request is greedy, or the rule never got there.
        considered: the target's most probable tokens after it, best first.
    """

    token: int
    text: str
    shown: str
    parent: int
    depth: int
    drafter: str
    fate: Fate
    draft_prob: float | None
    target_prob: float
    law_prob: float | None
    considered: tuple[Considered, ...] = ()


@dataclass(frozen=True)
class OwnToken:
    """The target's own token that ends a pass.

    Attributes:
        token: its id.
        text: what it adds to the answer.
        shown: what to draw; never empty.
        kind: "recovered" after a rejection, "bonus" after a whole path, "plain" without a draft.
        target_prob: as for `DraftNode`.
        law_prob: as for `DraftNode`.
    """

    token: int
    text: str
    shown: str
    kind: TokenKind
    target_prob: float
    law_prob: float | None


@dataclass(frozen=True)
class Seconds:
    """Times of a pass or of a whole answer, by phase."""

    draft: float
    verify: float
    accept: float

    @property
    def total(self) -> float:
        """All phases."""
        return self.draft + self.verify + self.accept


@dataclass(frozen=True)
class Pass:
    """One pass of the target.

    Attributes:
        context: tokens before it, the prompt's included.
        drafter: who drafted.
        num_asked: K, the most tokens on a path that the drafter was asked for.
        num_made: tokens that it drafted; those not worth their rows are not among the nodes.
        nodes: the draft that was verified, parents before children.
        considered: the target's most probable tokens after the root, best first.
        accepted: indices of the delivered path, from the first level down.
        own: the target's own token; None where the answer ended before it.
        seconds: of this pass.
    """

    context: int
    drafter: str
    num_asked: int
    num_made: int
    nodes: tuple[DraftNode, ...]
    considered: tuple[Considered, ...]
    accepted: tuple[int, ...]
    own: OwnToken | None
    seconds: Seconds

    @property
    def first_wrong(self) -> int | None:
        """Index of the first token that the target rejected, on the path that it had kept."""
        return next((i for i, node in enumerate(self.nodes) if node.fate == "wrong"), None)

    @property
    def num_delivered(self) -> int:
        """Tokens of the answer that this pass gave."""
        return len(self.accepted) + (self.own is not None)

    def considered_at(self, parent: int) -> tuple[Considered, ...]:
        """What the target held possible after a node, or after `ROOT`."""
        return self.considered if parent == ROOT else self.nodes[parent].considered


@dataclass(frozen=True)
class Request:
    """What was asked.

    Attributes:
        prompt: the user's text.
        system: the system message; None: there was none.
        raw: whether the prompt was continued as it is, without the chat template.
        model: name or file of the target.
        drafter: as it was asked for; a pass has who drafted it.
        k: most tokens on a path, or "auto".
        tree_nodes: draft tokens per pass on all branches; None: no branches were asked for.
        temperature: 0 is greedy.
        seed: of the random choices; None: the answer is greedy, or cannot be had again.
        sampling: the other parameters of the law that are not at their default.
    """

    prompt: str
    system: str | None
    raw: bool
    model: str
    drafter: str
    k: str
    tree_nodes: int | None
    temperature: float
    seed: int | None
    sampling: Mapping[str, Any] = field(default_factory=dict)

    @property
    def law(self) -> str:
        """How tokens are chosen, in words, but for the seed."""
        return f"temperature {self.temperature:g}" if self.temperature else "greedy"


@dataclass(frozen=True)
class Answer:
    """What was answered.

    Attributes:
        text: without stop strings and control tokens.
        finish_reason: "stop" or "length".
        prompt_tokens: length of the prompt.
        num_tokens: delivered tokens.
        num_accepted: how many of them were drafted; a stop string can take back what a pass had
            delivered, so that this may be less than the passes accepted.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    num_tokens: int
    num_accepted: int


@dataclass(frozen=True)
class Run:
    """One timed answer of the race.

    Attributes:
        decode_seconds: wall-clock time from the prompt, read, to the end of the answer.
        num_tokens: delivered tokens.
        passes: of the target.
        drafted: draft tokens that were verified.
        accepted: draft tokens that were delivered.
        seconds: by phase; the rest of `decode_seconds` went elsewhere.
    """

    decode_seconds: float
    num_tokens: int
    passes: int
    drafted: int
    accepted: int
    seconds: Seconds


@dataclass(frozen=True)
class Race:
    """The same answer with nothing drafted and with a drafter, by turns on the same machine.

    Attributes:
        plain: runs without drafts, one for each round.
        speculative: runs with them.
        plain_text: the answer of the plain runs.
        is_identical: whether all runs, and the recorded one, gave the same tokens and text.
    """

    plain: tuple[Run, ...]
    speculative: tuple[Run, ...]
    plain_text: str
    is_identical: bool


@dataclass(frozen=True)
class Trace:
    """An answer with everything that happened on the way to it.

    Attributes:
        request: what was asked.
        engine: what ran the model, as in `oneglance generate --json`.
        answer: what was answered.
        passes: how, pass by pass.
        race: the answer's speed with and without drafts; None where it was not measured.
        origin: program, machine and day.
    """

    request: Request
    engine: Mapping[str, Any]
    answer: Answer
    passes: tuple[Pass, ...]
    race: Race | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
