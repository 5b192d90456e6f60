"""Lookahead decoding: Jacobi iteration inside the pass that verifies, no second model.

Fu, Bailis, Stoica, Zhang, "Break the Sequential Dependency of LLM Inference Using Lookahead
Decoding" (arXiv:2402.02057). Each pass of the target also carries a window of guesses of places
further on; what the target says after them improves them and yields n-grams, and n-grams that
follow the last token are the drafts. Window and drafts are one tree of point masses: a row depends
on the tokens before it only, so the paper's attention mask is a tree, and its every node can be
accepted. Window tokens come from earlier passes, never from this pass's randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle

from oneglance.config import SamplingParams
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.drafters.lookahead_pool import GramPool
from oneglance.drafters.lookahead_window import Window
from oneglance.drafters.paths import PathTree, until_end
from oneglance.errors import ParameterError
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.noise import KeyedNoise
from oneglance.sampling.warp import greedy_token, log_law
from oneglance.types import Float32Array, Proposal

_MEMORY = 0.9
"""Weight of the past in the mean of accepted tokens that `Proposal.expected` is."""


@dataclass(frozen=True)
class LookaheadShape:
    """How much is looked ahead.

    The defaults suit a CPU, where a pass of 8 rows costs nearly twice one of a single row.

    Attributes:
        window: W, columns of the window, at least 1.
        ngram: N, tokens of an n-gram with its key; its rows are N − 1 deep, at least 2.
        guesses: G, most n-grams that are tried in one pass, at least 1.
    """

    window: int = 1
    ngram: int = 4
    guesses: int = 2

    def __post_init__(self) -> None:
        """Refuses sizes that leave nothing of the method.

        Raises:
            ParameterError: names the sizes and what they must be.
        """
        if self.window < 1 or self.ngram < 2 or self.guesses < 1:
            raise ParameterError(
                f"lookahead:{self.window},{self.ngram},{self.guesses} cannot be used; the window "
                "must be 1 or more, the n-gram 2 or more and the guesses 1 or more."
            )


DEFAULT_SHAPE = LookaheadShape()


def parse_shape(argument: str) -> LookaheadShape:
    """Reads "W,N,G"; "" is the default.

    Raises:
        ParameterError: it is not three whole numbers, or they cannot be used.
    """
    if not argument:
        return DEFAULT_SHAPE
    try:
        window, ngram, guesses = (int(part) for part in argument.split(","))
    except ValueError:
        raise ParameterError(
            f"lookahead:{argument} cannot be read; write lookahead:W,N,G with three whole numbers, "
            "as in lookahead:3,4,2."
        ) from None
    return LookaheadShape(window, ngram, guesses)


@dataclass
class LookaheadSession:
    """One request: its text, its window and pool, and the tree of the pass in flight."""

    context: DraftContext
    params: SamplingParams
    history: TokenHistory
    window: Window
    pool: GramPool
    recent: list[int]
    tree: PathTree | None = None
    has_guess: bool = False
    ends: dict[int, int] = field(default_factory=dict)
    accepted: dict[bool, float] = field(default_factory=lambda: {False: 0.1, True: 0.7})


class LookaheadDrafter(Drafter[LookaheadSession]):
    """Proposes the window and up to G n-grams of the pool; learns from every row of the pass."""

    name = "lookahead"
    reaches_further = True

    def __init__(self, vocab_size: int, shape: LookaheadShape = DEFAULT_SHAPE) -> None:
        """Takes the target's vocabulary size, to which its rows are cut, and the sizes."""
        self._vocab_size = vocab_size
        self._shape = shape
        self.num_further = (shape.window + shape.guesses) * (shape.ngram - 1)

    def start(self, context: DraftContext) -> LookaheadSession:
        """Fills the pool from the prompt, and row 0 of the window with tokens of it."""
        usable = [token for token in reversed(context.prompt) if token not in context.eos_ids]
        fillers = cycle(usable)
        window = Window(
            self._shape.window,
            self._shape.ngram,
            context.prompt[-1],
            filler=lambda: next(fillers, None),
        )
        session = LookaheadSession(
            context=context,
            params=_window_params(context),
            history=TokenHistory(context.prompt),
            window=window,
            pool=GramPool(self._shape.guesses),
            recent=[],
        )
        self._harvest(session, context.prompt)
        return session

    def propose(self, requests: Sequence[DraftRequest[LookaheadSession]]) -> list[Proposal]:
        """Merges guesses and window into one tree; guesses first where the budget is small.

        K bounds the length of the guesses. The window's paths are as long as the window asks, so
        far as they can be delivered; a column that does not fit waits.
        """
        return [self._propose(request) for request in requests]

    def see(self, session: LookaheadSession, proposal: Proposal, logits: Float32Array) -> None:
        """Reads the rows at the ends of the columns: a new row of the window, and n-grams."""
        del proposal  # the session knows where in it the columns end
        ends: dict[int, int] = {}
        for column, node in session.ends.items():
            row = logits[node + 1, : self._vocab_size]
            token = _say(session, row, session.window.path(column))
            if token is not None:
                ends[column] = token
        for gram in session.window.advance(ends):
            session.pool.add(gram[0], gram[1:])

    def observe(self, session: LookaheadSession, tokens: Sequence[int]) -> None:
        """Slides the window past the decided tokens and adds their n-grams to the pool."""
        if not tokens:
            return
        if session.tree is not None:
            mean = session.accepted[session.has_guess]
            num_matched = session.tree.num_matched(tokens)
            session.accepted[session.has_guess] = mean + (1 - _MEMORY) * (num_matched - mean)
        session.tree, session.ends = None, {}
        for token in tokens:
            session.history.append(token)
        self._harvest(session, tokens)
        session.window.slide(tokens)

    def close(self, session: LookaheadSession) -> None:
        """Forgets the request."""
        session.tree, session.ends = None, {}

    def _propose(self, request: DraftRequest[LookaheadSession]) -> Proposal:
        session = request.session
        session.tree, session.ends = None, {}
        if min(request.num_draft_tokens, request.max_depth) < 1:
            return Proposal.empty(self.name)
        tree = PathTree(request.num_tree_nodes)
        guesses = session.pool.guesses(session.recent[-1])
        for guess in guesses:
            tree.add(until_end(guess[: request.num_draft_tokens], session.context.eos_ids))
        for column in range(len(session.window.columns)):
            path = session.window.path(column)
            node = tree.add(path) if len(path) <= request.max_depth else None
            if node is not None:
                session.ends[column] = node
        session.tree, session.has_guess = tree, bool(guesses)
        return tree.proposal(self.name, session.accepted[session.has_guess])

    def _harvest(self, session: LookaheadSession, tokens: Sequence[int]) -> None:
        """Adds the n-grams that end with these tokens to the pool."""
        length = self._shape.ngram
        text = [*session.recent, *tokens]
        for start in range(len(text) - length + 1):
            session.pool.add(text[start], tuple(text[start + 1 : start + length]))
        session.recent = text[-max(1, length - 1) :]


def _window_params(context: DraftContext) -> SamplingParams:
    """The law that the window's tokens are chosen by.

    With a seed it is the target's own, noise included. Without one the best token stands for the
    draw to come, as no other agrees with it more often. A user's function and a constraint are
    spared paths that no answer may ever take.
    """
    params = replace(context.params, logits_processors=(), constraint=None)
    is_seeded = isinstance(context.noise, KeyedNoise)
    return params if is_seeded else replace(params, temperature=0.0)


def _say(session: LookaheadSession, row: Float32Array, path: Sequence[int]) -> int | None:
    """The window's token after a path; None where none can be told.

    End of text is left out: no place beyond it will ever be asked for.
    """
    try:
        token = _choose(session, session.params, row, path)
        if token in session.context.eos_ids:
            banned = (*session.params.banned_tokens, *session.context.eos_ids)
            token = _choose(session, replace(session.params, banned_tokens=banned), row, path)
    except ParameterError:  # broken logits; the target's own walk refuses them if it gets there
        return None
    return token


def _choose(
    session: LookaheadSession, params: SamplingParams, row: Float32Array, path: Sequence[int]
) -> int:
    eos_ids, noise = session.context.eos_ids, session.context.noise
    if params.is_greedy or not isinstance(noise, KeyedNoise):
        return greedy_token(row, params, session.history, path, eos_ids=eos_ids)
    law = log_law(row, params, session.history, path, eos_ids=eos_ids)
    return noise.sample_from(law, session.history.num_output + len(path))
