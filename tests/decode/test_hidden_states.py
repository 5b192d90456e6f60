"""A drafter is shown the target's hidden states of every decided token, once and in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from tests.engine.random_models import random_model

from oneglance.config import EngineConfig, SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import Vocabulary
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.engine.base import Batch, Engine, PassOutput, TreeRows
from oneglance.engine.factory import make_engine
from oneglance.engine.native import is_available
from oneglance.engine.prefix import PrefixStore
from oneglance.types import Float32Array, Proposal

V = 97
LAYERS = (1, 3)
PROMPT = [int(token) for token in np.random.default_rng(2).integers(0, V, 23)]
VOCABULARY = Vocabulary(V, frozenset(), lambda token: bytes([token]))
PARAMS = SamplingParams(max_tokens=9)
KINDS = ("reference", "native") if is_available() else ("reference",)


class Session:
    """The decided tokens and what was shown, by position."""

    def __init__(self, prompt: Sequence[int], unseen: int) -> None:
        self.tokens = list(prompt)
        self.unseen = unseen
        self.shown: dict[int, Float32Array] = {}
        self.is_open = True


class Watcher(Drafter[Session]):
    """Drafts trees of which one path is the answer, and keeps the states that it is shown."""

    name = "watcher"
    hidden_layers = LAYERS

    def __init__(self, answer: Sequence[int], unseen: int = 0) -> None:
        self.answer = [*PROMPT, *answer]
        self.unseen = unseen
        self.sessions: list[Session] = []

    def start(self, context: DraftContext) -> Session:
        self.sessions.append(Session(context.prompt, self.unseen))
        return self.sessions[-1]

    def propose(self, requests: Sequence[DraftRequest[Session]]) -> list[Proposal]:
        return [self.tree(request) for request in requests]

    def tree(self, request: DraftRequest[Session]) -> Proposal:
        """A wrong token before each right one, and a third right one that is missing."""
        known = len(request.session.tokens)
        assert sorted(request.session.shown) == list(range(self.unseen, known - 1))
        coming = self.answer[known : known + 2]
        tokens = [token for right in coming for token in (right ^ 1, right)]
        parents = [parent for depth in range(len(coming)) for parent in [2 * depth - 1] * 2]
        size = min(len(tokens), 2 * request.num_draft_tokens)
        return Proposal(
            np.array(tokens[:size], dtype=np.int64), np.array(parents[:size], dtype=np.int64)
        )

    def first_unseen(self, session: Session) -> int:
        return session.unseen

    def see_hidden(self, session: Session, start: int, hidden: Mapping[int, Float32Array]) -> None:
        assert tuple(sorted(hidden)) == LAYERS
        for row in range(len(hidden[1])):
            joined = np.concatenate([hidden[layer][row] for layer in LAYERS])
            assert start + row not in session.shown
            session.shown[start + row] = joined

    def observe(self, session: Session, tokens: Sequence[int]) -> None:
        session.tokens += tokens

    def close(self, session: Session) -> None:
        session.is_open = False


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest) -> Engine:
    sizes = {"hidden_size": 32, "head_dim": 16, "intermediate_size": 64}
    config, weights = random_model(3, **sizes)
    return make_engine(config, weights, EngineConfig(kind=request.param, num_threads=1))


def states_of(engine: Engine, tokens: Sequence[int]) -> Float32Array:
    """Of all tokens, from one pass."""
    sequence = engine.open()
    output = engine.forward(Batch((TreeRows.chain(sequence, tokens, False),), LAYERS))
    engine.close(sequence)
    return np.concatenate([output.hidden[layer][0] for layer in LAYERS], axis=1)


def answer_of(engine: Engine, drafter: Drafter[Session], prefixes: PrefixStore | None) -> list[int]:
    chunked = EngineConfig(prefill_chunk=5)
    decoder = Decoder(
        engine, VOCABULARY, drafter, k=2, tree_nodes=4, engine_config=chunked, prefixes=prefixes
    )
    ((_, sequence, _), *_) = list(decoder.run([PROMPT], [PARAMS]))[-1:]
    return [token.token_id for token in sequence.tokens]


@pytest.mark.parametrize("unseen", [0, 8])
def test_they_are_those_of_one_pass(engine: Engine, unseen: int) -> None:
    """With a kept prefix too, of which the drafter needs all or the last part."""
    prefixes = PrefixStore(engine, 1)
    answer = answer_of(engine, Watcher([]), prefixes)
    watcher = Watcher(answer, unseen)
    assert answer_of(engine, watcher, prefixes) == answer
    (session,) = watcher.sessions
    wanted = states_of(engine, [*PROMPT, *answer])
    assert max(session.shown) >= len(PROMPT) + 5
    for position, shown in session.shown.items():
        assert np.array_equal(shown, wanted[position])
    assert not session.is_open


def test_a_prompt_that_fails_closes_what_was_begun(engine: Engine) -> None:
    watcher = Watcher([])
    real = engine.forward

    def failing(batch: Batch) -> PassOutput:
        if watcher.sessions and len(watcher.sessions[0].shown) >= 10:
            raise MemoryError
        return real(batch)

    engine.forward = failing  # type: ignore[method-assign]
    with pytest.raises(MemoryError):
        answer_of(engine, watcher, None)
    assert not watcher.sessions[0].is_open
