"""A scripted target and drafter on a tiny vocabulary, to test decoding and anyone's drafter.

    from oneglance.testing import check_drafter
    check_drafter(lambda: MyDrafter(...))

`check_drafter` runs the real loop (warp, drafter, accept rule, commit, stop) under every outcome
of its random choices and compares the exact law of the answers with the law without the drafter.
A drafter that reports another law than it draws from, or peeks at what it must not see, fails. One
that merely guesses badly (from a state that it forgot to roll back, say) passes: that costs time,
never exactness. Its own engine, if it has one, is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

import numpy as np

from oneglance.config import ModelConfig, SamplingParams
from oneglance.control.length import Control
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import Vocabulary
from oneglance.drafters.base import DraftContext, Drafter, DraftHints, DraftRequest
from oneglance.drafters.none import NoDrafter
from oneglance.engine.base import Batch, Engine, PassOutput, SequenceId
from oneglance.engine.top_tokens import top_tokens
from oneglance.errors import CapacityError
from oneglance.sampling.noise import KeyedNoise, Noise
from oneglance.types import ROOT, EngineInfo, Float32Array, Float64Array, Proposal
from oneglance.verify.enumeration import enumerate_outcomes

Script = Callable[[tuple[int, ...]], Float32Array]
"""Maps a prefix of token ids to the logits [V] of what follows."""


def random_script(vocab_size: int, seed: int, spread: float = 1.5) -> Script:
    """Logits that are random, different after each prefix, and the same every time.

    Args:
        vocab_size: V.
        seed: another seed, another model.
        spread: standard deviation of the logits; larger is more decided.
    """

    @cache
    def logits(prefix: tuple[int, ...]) -> Float32Array:
        generator = np.random.default_rng([seed, len(prefix), *prefix])
        return (spread * generator.standard_normal(vocab_size)).astype(np.float32)

    return logits


@dataclass
class _ScriptedSequence:
    committed: list[int] = field(default_factory=list)
    in_flight: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)

    def drop_in_flight(self) -> None:
        self.in_flight, self.parents = [], []


class ScriptedEngine(Engine):
    """An engine whose logits come from a function of the prefix; it counts passes and rows."""

    def __init__(self, script: Script, vocab_size: int, context_length: int = 64) -> None:
        """Takes the script and the two sizes that callers look at."""
        self.config = ModelConfig(
            architecture="scripted",
            vocab_size=vocab_size,
            hidden_size=1,
            num_layers=1,
            num_heads=1,
            num_kv_heads=1,
            head_dim=1,
            intermediate_size=1,
            context_length=context_length,
            rms_norm_eps=1e-5,
            rope_theta=10_000.0,
        )
        self.num_passes = 0
        self.num_rows = 0
        self._script = script
        self._sequences: dict[SequenceId, _ScriptedSequence] = {}
        self._next_id = 0

    @property
    def num_open(self) -> int:
        """Sequences that have not been closed."""
        return len(self._sequences)

    @property
    def info(self) -> EngineInfo:
        """Which engine this is, for reports."""
        return EngineInfo("scripted")

    def open(self) -> SequenceId:
        """Starts an empty sequence."""
        self._next_id += 1
        self._sequences[self._next_id] = _ScriptedSequence()
        return self._next_id

    def fork(self, sequence: SequenceId) -> SequenceId:
        """Starts a sequence with the same committed prefix."""
        new = self.open()
        self._sequences[new].committed = list(self._sequences[sequence].committed)
        return new

    def length(self, sequence: SequenceId) -> int:
        """Number of committed positions."""
        return len(self._sequences[sequence].committed)

    def forward(self, batch: Batch) -> PassOutput:
        """Looks up the logits of each wanted row; layers and hidden states do not exist here."""
        assert batch.num_layers is None, "a scripted engine has no layers"
        assert not batch.skipped_layers, "a scripted engine has no layers"
        assert not batch.hidden_layers, "a scripted engine has no hidden states"
        logits = []
        for tree in batch.trees:
            state = self._sequences[tree.sequence]
            kept = tree.num_kept
            assert state.in_flight[:kept] == tree.tokens[:kept].tolist(), "other rows are in flight"
            assert state.parents[:kept] == tree.parents[:kept].tolist(), "other rows are in flight"
            paths: list[list[int]] = []
            for token, parent in zip(tree.tokens, tree.parents, strict=True):
                before = state.committed if parent == ROOT else paths[parent]
                paths.append([*before, int(token)])
                if len(paths[-1]) > self.config.context_length:
                    raise CapacityError(
                        f"A row at position {len(paths[-1]) - 1} does not fit the context of "
                        f"{self.config.context_length}; draft fewer tokens."
                    )
            state.in_flight = [int(token) for token in tree.tokens]
            state.parents = [int(parent) for parent in tree.parents]
            wanted = [tuple(paths[row]) for row in np.flatnonzero(tree.wants_logits)]
            rows = [self._script(path) for path in wanted]
            logits.append(np.array(rows, dtype=np.float32).reshape(-1, self.config.vocab_size))
            self.num_rows += len(paths) - kept
        self.num_passes += 1
        if batch.num_top is None:
            return PassOutput(tuple(logits))
        num_ids = batch.top_vocab_size or self.config.vocab_size
        num_top = min(batch.num_top, num_ids)
        return PassOutput((), top=tuple(top_tokens(part[:, :num_ids], num_top) for part in logits))

    def commit(self, sequence: SequenceId, rows: Sequence[int]) -> None:
        """Appends in-flight tokens to the prefix and drops the others."""
        state = self._sequences[sequence]
        for row, before in zip(rows, [ROOT, *rows], strict=False):
            assert state.parents[row] == before, "rows are no path from the first level down"
        state.committed.extend(state.in_flight[row] for row in rows)
        state.drop_in_flight()

    def truncate(self, sequence: SequenceId, length: int) -> None:
        """Drops in-flight rows and positions from `length` on."""
        state = self._sequences[sequence]
        assert 0 <= length <= len(state.committed), "truncated beyond the committed length"
        state.drop_in_flight()
        del state.committed[length:]

    def close(self, sequence: SequenceId) -> None:
        """Ends a sequence."""
        del self._sequences[sequence]


@dataclass
class ScriptedSession:
    """One request's decided tokens and its randomness."""

    context: DraftContext
    tokens: list[int]


class ScriptedDrafter(Drafter[ScriptedSession]):
    """Drafts chains or trees from a law that is a function of the prefix.

    `kind` says how tokens are chosen at each node: "sampled" without replacement or "replaced"
    (with it), both reporting their law; "top", the most probable ones, a point mass. With a seed
    the two sampled kinds take the best of log-law plus the target's noise, likewise point masses.
    """

    name = "scripted"

    def __init__(
        self,
        law_of: Callable[[tuple[int, ...]], Float64Array],
        branches: Sequence[int] | None = None,
        kind: Literal["sampled", "replaced", "top"] = "sampled",
    ) -> None:
        """Takes the law and the shape.

        Args:
            law_of: prefix to law [V].
            branches: children per node at each depth, such as (2, 1); None: a chain as long as
                is asked for.
            kind: how children are chosen.
        """
        self._law_of = law_of
        self._branches = branches
        self._kind = kind

    def start(self, context: DraftContext) -> ScriptedSession:
        """Remembers the prompt."""
        return ScriptedSession(context, list(context.prompt))

    def propose(self, requests: Sequence[DraftRequest[ScriptedSession]]) -> list[Proposal]:
        """Grows a tree level by level, within the number of tokens asked for."""
        return [self._grow(request.session, request.num_draft_tokens) for request in requests]

    def observe(self, session: ScriptedSession, tokens: Sequence[int]) -> None:
        """Appends decided tokens."""
        session.tokens.extend(tokens)

    def close(self, session: ScriptedSession) -> None:
        """Forgets the request."""
        session.tokens.clear()

    def _grow(self, session: ScriptedSession, limit: int) -> Proposal:
        branches = [1] * limit if self._branches is None else list(self._branches)
        noise = session.context.noise
        has_law = self._kind != "top" and isinstance(noise, Noise)
        tokens: list[int] = []
        parents: list[int] = []
        laws: list[Float64Array] = []
        paths: dict[int, list[int]] = {ROOT: []}
        frontier = [ROOT]
        # Depth is bounded by the limit too: deeper tokens could never be delivered.
        for depth, width in enumerate(branches[:limit]):
            level: list[int] = []
            for parent in frontier:
                law = self._law_of((*session.tokens, *paths[parent]))
                position = len(session.tokens) - len(session.context.prompt) + depth
                for token in self._children(law, width, noise, position):
                    if len(tokens) < limit:
                        paths[len(tokens)] = [*paths[parent], token]
                        level.append(len(tokens))
                        tokens.append(token)
                        parents.append(parent)
                        laws.append(law)
            frontier = level
        return Proposal(
            tokens=np.array(tokens, dtype=np.int64),
            parents=np.array(parents, dtype=np.int64),
            draft_probs=tuple(laws) if has_law else None,
            with_replacement=self._kind == "replaced",
            drafter=self.name,
        )

    def _children(
        self, law: Float64Array, width: int, noise: Noise | KeyedNoise, position: int
    ) -> list[int]:
        support = int(np.count_nonzero(law))
        if self._kind == "top":
            return [int(token) for token in np.argsort(-law, kind="stable")[: min(width, support)]]
        if isinstance(noise, KeyedNoise):
            with np.errstate(divide="ignore"):
                return noise.sample_distinct(np.log(law), position, width)
        if self._kind == "replaced":
            return [noise.draw(law) for _ in range(width)]
        children: list[int] = []
        rest = law.copy()
        for _ in range(min(width, support)):
            children.append(noise.draw(rest / rest.sum()))
            rest[children[-1]] = 0.0
        return children


def answer_law(
    decoder: Decoder,
    prompt: Sequence[int],
    params: SamplingParams,
    hints: DraftHints = DraftHints(),
) -> dict[tuple[int, ...], float]:
    """The exact law of a sampled answer: every outcome of every random choice, with its weight.

    Args:
        decoder: target, vocabulary and drafter. The drafter must take its randomness from the
            `noise` of its context.
        prompt: token ids.
        params: a short `max_tokens`, no seed.
        hints: what the drafter is told.

    Returns:
        Probability of each sequence of delivered token ids; they sum to 1.
    """

    def run(noise: Noise) -> tuple[int, ...]:
        # Every run starts from the same knowledge and no clock, so that it can be repeated.
        fresh = replace(decoder, control=Control.without_a_clock())
        sequence = fresh.begin(prompt, params, noise, hints)
        try:
            while sequence.ending is None:
                fresh.step([sequence])
            return tuple(token.token_id for token in sequence.tokens)
        finally:
            fresh.end(sequence)

    return enumerate_outcomes(run)


def total_variation(law: dict[Any, float], other: dict[Any, float]) -> float:
    """Half the sum of absolute differences of two laws: 0 if equal, 1 if disjoint."""
    keys = law.keys() | other.keys()
    return sum(abs(law.get(key, 0.0) - other.get(key, 0.0)) for key in keys) / 2


def check_drafter(
    make_drafter: Callable[[], Drafter[Any]],
    vocab_size: int = 3,
    prompt: Sequence[int] = (0, 1, 0, 1),
    num_tokens: int = 3,
    k: int = 2,
    seeds: Sequence[int] = (0, 1),
    tree_nodes: int | None = None,
    hints: DraftHints = DraftHints(),
) -> None:
    """Proves a drafter exact on scripted targets: laws by enumeration, fixed answers by value.

    Greedy and seeded answers are compared alone and in a batch of five prompts, each longer than
    the one before.

    Args:
        make_drafter: makes a fresh drafter for a target of `vocab_size` tokens.
        vocab_size: V, small.
        prompt: token ids below V.
        num_tokens: length of the answers; the work grows as V to this power.
        k: draft tokens on a path.
        seeds: which scripted targets.
        tree_nodes: draft tokens per pass on all branches together; None: a chain.
        hints: what the drafter is told of each request.

    Raises:
        AssertionError: an answer's law or an answer changed, more was drafted than asked for, or a
            sequence of the target was left open.
    """
    for seed in seeds:
        target = ScriptedEngine(random_script(vocab_size, seed), vocab_size)
        check_drafter_on(
            target, make_drafter(), vocab_size, prompt, num_tokens, k, tree_nodes, hints
        )
        assert target.num_open == 0, "a sequence was left open"


def check_drafter_on(
    target: Engine,
    drafter: Drafter[Any],
    vocab_size: int,
    prompt: Sequence[int] = (0, 1, 0, 1),
    num_tokens: int = 3,
    k: int = 2,
    tree_nodes: int | None = None,
    hints: DraftHints = DraftHints(),
) -> None:
    """`check_drafter` for one target, such as a tiny model whose engine the drafter runs itself.

    Args:
        target: the engine, of any kind.
        drafter: drafts for it.
        vocab_size: V, small; no more than the engine's rows are wide.
        prompt: as for `check_drafter`.
        num_tokens: as for `check_drafter`.
        k: as for `check_drafter`.
        tree_nodes: as for `check_drafter`.
        hints: as for `check_drafter`.

    Raises:
        AssertionError: an answer's law or an answer changed, or more was drafted than asked for.
    """
    vocabulary = Vocabulary(vocab_size, frozenset(), lambda token: bytes([97 + token]))
    plain = Decoder(target, vocabulary, NoDrafter())
    drafted = Decoder(target, vocabulary, drafter, k=k, tree_nodes=tree_nodes)
    sampled = SamplingParams(max_tokens=num_tokens, temperature=0.9, frequency_penalty=0.3)
    distance = total_variation(
        answer_law(plain, prompt, sampled), answer_law(drafted, prompt, sampled, hints)
    )
    assert distance < 1e-12, f"the drafter changes the law of the answer by {distance:.3g}"
    prompts = [(*prompt, *prompt[:more]) for more in range(5)]
    for params in (
        SamplingParams(max_tokens=8 * num_tokens),
        *(SamplingParams(max_tokens=8 * num_tokens, temperature=1.0, seed=s) for s in range(8)),
    ):
        expected = _answers(plain, prompts, params)
        alone = [_answers(drafted, [each], params, hints)[0] for each in prompts]
        assert alone == expected, f"with {params} the answers are {alone}, not {expected}"
        together = _answers(drafted, prompts, params, hints)
        assert together == expected, f"in a batch the answers are {together}, not {expected}"


def _answers(
    decoder: Decoder,
    prompts: Sequence[Sequence[int]],
    params: SamplingParams,
    hints: DraftHints = DraftHints(),
) -> list[tuple[int, ...]]:
    count = len(prompts)
    sequences = {
        index: sequence
        for index, sequence, _ in decoder.run(prompts, [params] * count, [hints] * count)
    }
    return [tuple(token.token_id for token in sequences[i].tokens) for i in range(count)]
