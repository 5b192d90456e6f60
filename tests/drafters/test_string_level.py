"""What the draft model writes becomes the target's tokens, whatever its own are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from oneglance.config import EngineConfig, SamplingParams
from oneglance.drafters.base import DraftContext, DraftRequest
from oneglance.drafters.other_vocabulary_pair import VocabularyPair
from oneglance.drafters.string_level import StringLevelDrafter, StringLevelSession
from oneglance.engine.base import Batch, PassOutput
from oneglance.sampling.noise import SequentialNoise
from oneglance.testing import ScriptedEngine
from oneglance.types import Float32Array, Proposal
from tests.small_vocabularies import LongestMatch

LETTERS = [bytes([byte]) for byte in b"abcdefgh \n"]
TARGET = LongestMatch([*LETTERS, b"ab", b"cd", b"abc", "<end>", "<stop>"], ends=["<end>", "<stop>"])
DRAFT = LongestMatch([b"bc", b"cd", b"ef", b"\n  ", *LETTERS, "<end>"], ends=["<end>"])
END = "<end>"


class Writer(ScriptedEngine):
    """Writes one text in the longest tokens there are, then ends; notes what it was fed."""

    def __init__(self, story: str, words: LongestMatch = DRAFT, context_length: int = 64) -> None:
        super().__init__(self._next, words.vocab_size, context_length)
        self.story = story.encode()
        self.words = words
        self.sureness = 9.0
        self.calls: list[list[tuple[int, list[int]]]] = []
        self.tops: list[int | None] = []

    def _next(self, prefix: tuple[int, ...]) -> Float32Array:
        said = b"".join(map(self.words.token_bytes, prefix))
        rest = self.story[len(said) :] if self.story.startswith(said) else b""
        fitting = [
            i
            for i, word in enumerate(self.words.words)
            if (rest.startswith(word) if isinstance(word, bytes) else word == END)
        ]
        best = max(fitting, key=lambda i: len(self.words.token_bytes(i)))
        logits = np.zeros(self.words.vocab_size, dtype=np.float32)
        logits[best] = self.sureness
        return logits

    def forward(self, batch: Batch) -> PassOutput:
        self.tops.append(batch.num_top)
        self.calls.append(
            [(self.length(tree.sequence), tree.tokens.tolist()) for tree in batch.trees]
        )
        return super().forward(batch)


def begin(drafter: StringLevelDrafter, text: str) -> StringLevelSession:
    return drafter.start(
        DraftContext(
            tuple(TARGET.encode(text)), SamplingParams(), SequentialNoise(0), TARGET.eos_ids
        )
    )


def drafter_of(engine: Writer, kept_prefixes: int = 0) -> StringLevelDrafter:
    pair = VocabularyPair(TARGET, engine.words)
    return StringLevelDrafter(
        engine, pair, "draft:writer", EngineConfig(kept_prefixes=kept_prefixes)
    )


def propose(
    drafter: StringLevelDrafter, session: StringLevelSession, count: int, nodes: int | None = None
) -> Proposal:
    return drafter.propose([DraftRequest(session, count, nodes)])[0]


def words(proposal: Proposal) -> list[bytes | str]:
    return [TARGET.words[token] for token in proposal.tokens]


def feed(drafter: StringLevelDrafter, session: StringLevelSession, text: str) -> None:
    drafter.observe(session, TARGET.encode(text))


def test_what_is_written_is_cut_as_the_target_cuts_it() -> None:
    drafter = drafter_of(Writer("h abcdefabcd g h"))
    proposal = propose(drafter, begin(drafter, "h"), 6)
    assert words(proposal) == [b" ", b"abc", b"d", b"e", b"f", b"abc"]
    assert proposal.drafter == "draft:writer"
    assert proposal.draft_probs is None
    assert proposal.is_chain


@pytest.mark.parametrize(("count", "nodes", "expected"), [(0, None, 0), (1, None, 1), (4, 2, 2)])
def test_budgets_are_kept(count: int, nodes: int | None, expected: int) -> None:
    engine = Writer("h abcdefabcd g h")
    drafter = drafter_of(engine)
    assert len(propose(drafter, begin(drafter, "h"), count, nodes)) == expected
    assert bool(engine.calls) == (expected > 0)


def test_the_last_token_is_held_back_and_its_text_kept() -> None:
    """ "b" might become a longer token; when "a" is decided, what was written is still there."""
    engine = Writer("h abcd g")
    drafter = drafter_of(engine)
    session = begin(drafter, "h")
    assert words(propose(drafter, session, 1)) == [b" "]
    assert session.text.ahead == b" a"
    feed(drafter, session, " ")
    engine.calls.clear()
    assert words(propose(drafter, session, 1)) == [b"abc"]
    fed = [row for call in engine.calls for _, rows in call for row in rows]
    assert [DRAFT.words[token] for token in fed] == [b"a", b"bc"]


def test_enough_that_was_written_before_needs_no_pass() -> None:
    engine = Writer("h defdef gggg")
    drafter = drafter_of(engine)
    session = begin(drafter, "h")
    assert len(propose(drafter, session, 5)) == 5
    feed(drafter, session, " d")
    engine.calls.clear()
    assert words(propose(drafter, session, 2)) == [b"e", b"f"]
    assert engine.calls == []


def test_decided_text_may_be_lengthened_to_the_token_the_model_would_have_taken() -> None:
    """ "\n" alone is rare to a model that knows "\n  " as one token."""
    engine = Writer("a\n  efgh")
    drafter = drafter_of(engine)
    session = begin(drafter, "a\n")
    assert words(propose(drafter, session, 3)) == [b" ", b" ", b"e"]
    assert engine.calls[0] == [(0, DRAFT.encode("a\n"))]
    assert [DRAFT.words[token] for token in session.text.tokens][:2] == [b"a", b"\n  "]


def test_decided_text_is_not_lengthened_against_the_targets_tokens() -> None:
    """The target would have said "abc" at once if it meant "bc" after "a"."""
    target = LongestMatch([b"a", b"b", b"c", b"d", b"bc"])
    engine = Writer("abcd", LongestMatch([b"a", b"bc", b"b", b"c", b"d", END], ends=[END]))
    drafter = StringLevelDrafter(engine, VocabularyPair(target, engine.words))
    session = drafter.start(DraftContext((0, 1), SamplingParams(), SequentialNoise(0)))
    assert target.words[propose(drafter, session, 1).tokens[0]] == b"c"
    assert [engine.words.words[token] for token in session.text.tokens][:2] == [b"a", b"b"]


def test_what_contradicts_the_targets_tokens_is_not_kept() -> None:
    """ "abc" was meant, but the target chose "a" where it has a token for "abc"."""
    engine = Writer("h abcd g")
    drafter = drafter_of(engine)
    session = begin(drafter, "h")
    propose(drafter, session, 2)
    drafter.observe(session, [TARGET.words.index(b" "), TARGET.words.index(b"a")])
    assert session.text.ahead.startswith(b"bc")
    propose(drafter, session, 1)
    assert words(propose(drafter, session, 1)) == [b"b"]


def test_a_wrong_draft_is_dropped_and_the_rest_of_the_cache_is_kept() -> None:
    engine = Writer("h efgh gfedc")
    drafter = drafter_of(engine)
    session = begin(drafter, "h")
    propose(drafter, session, 6)
    engine.story = b"h efa gfed"
    feed(drafter, session, " efa")
    engine.calls.clear()
    assert words(propose(drafter, session, 2)) == [b" ", b"g"]
    assert engine.calls[0] == [(2, DRAFT.encode("efa")[:2])]


def test_end_of_text_ends_the_draft_and_nothing_is_held_back() -> None:
    engine = Writer("h ef")
    drafter = drafter_of(engine)
    session = begin(drafter, "h")
    proposal = propose(drafter, session, 8)
    assert words(proposal) == [b" ", b"e", b"f", END]
    assert words(propose(drafter, session, 2)) == [b" ", b"e"], "the budget holds at the end too"
    drafter.observe(session, proposal.tokens.tolist())
    assert session.text.tokens[-1] == DRAFT.words.index(END)


def test_an_end_that_the_target_lacks_is_not_proposed() -> None:
    target = LongestMatch([*LETTERS, "<done>", "<stop>"], ends=["<done>", "<stop>"])
    drafter = StringLevelDrafter(Writer("h ef"), VocabularyPair(target, DRAFT))
    prompt = tuple(target.encode("h"))
    session = drafter.start(DraftContext(prompt, SamplingParams(), SequentialNoise(0)))
    proposal = propose(drafter, session, 8)
    assert [target.words[token] for token in proposal.tokens] == [b" ", b"e", b"f"]


def test_doubt_ends_a_draft_but_its_token_stays() -> None:
    engine = Writer("h defdefdefdef")
    drafter = drafter_of(engine)
    engine.sureness = 0.5
    session = begin(drafter, "h")
    assert words(propose(drafter, session, 9)) == [b" "]
    assert session.text.ahead == b" d"


def test_nothing_to_feed_is_nothing_to_say() -> None:
    engine = Writer("h ef")
    drafter = drafter_of(engine)
    stop = (TARGET.words.index("<stop>"),)  # a control token that the draft model lacks
    session = drafter.start(DraftContext(stop, SamplingParams(), SequentialNoise(0)))
    assert len(propose(drafter, session, 3)) == 0
    assert engine.calls == []
    drafter.close(session)


@pytest.mark.parametrize(("context_length", "expected"), [(2, 0), (4, 1), (5, 2), (64, 6)])
def test_the_drafts_own_context_ends_drafts_not_requests(
    context_length: int, expected: int
) -> None:
    engine = Writer("hg gggggggggg", context_length=context_length)
    drafter = drafter_of(engine)
    session = begin(drafter, "hg ")
    assert len(propose(drafter, session, 6)) == expected
    feed(drafter, session, "abab" * 20)
    assert len(propose(drafter, session, 6)) in (0, expected)


def test_half_a_character_is_finished() -> None:
    word = "é".encode()
    target = LongestMatch([word[:1], word[1:], b"a", b" "])
    draft = LongestMatch([b"a", word, b" ", END], ends=[END])
    engine = Writer("aéa a a a", draft)
    drafter = StringLevelDrafter(engine, VocabularyPair(target, draft))
    session = drafter.start(DraftContext((2, 0), SamplingParams(), SequentialNoise(0)))
    proposal = propose(drafter, session, 3)
    assert [target.words[token] for token in proposal.tokens] == [word[1:], b"a", b" "]


def test_a_batch_is_drafted_in_common_passes_and_each_as_alone() -> None:
    engine = Writer("h abcdefabcd g h")
    drafter = drafter_of(engine)
    texts = ["h", "h abc", "g", "h abcdef"]
    sessions = [begin(drafter, text) for text in texts]
    counts = [3, 0, 4, 2]
    proposals = drafter.propose([DraftRequest(s, c) for s, c in zip(sessions, counts, strict=True)])
    num_common = len(engine.calls)
    alone = [propose(drafter, begin(drafter, t), c) for t, c in zip(texts, counts, strict=True)]
    assert [p.tokens.tolist() for p in proposals] == [p.tokens.tolist() for p in alone]
    assert num_common < len(engine.calls) - num_common


def test_the_second_best_token_is_asked_for_and_more_only_where_one_is_sought() -> None:
    engine = Writer("h efgh gfed")
    drafter = drafter_of(engine)
    session = begin(drafter, "h")
    propose(drafter, session, 3)
    assert engine.tops == [2] * len(engine.tops)
    feed(drafter, session, "a")
    engine.tops.clear()
    propose(drafter, session, 2)
    assert engine.tops[0] is not None
    assert engine.tops[0] > 2


@pytest.mark.parametrize("kept_prefixes", [0, 2])
def test_closing_at_any_time_leaves_nothing_behind(kept_prefixes: int) -> None:
    engine = Writer("h abcdefabcd g h")
    drafter = drafter_of(engine, kept_prefixes)
    for decided in ("", " ", " abcd", " aef"):
        session = begin(drafter, "h")
        propose(drafter, session, 4)
        feed(drafter, session, decided)
        drafter.close(session)
    drafter.close(begin(drafter, "h"))
    assert engine.num_open <= kept_prefixes
    engine.calls.clear()
    again = begin(drafter, "h abc")
    first = propose(drafter, again, 2)
    fresh = drafter_of(Writer("h abcdefabcd g h"))
    np.testing.assert_array_equal(first.tokens, propose(fresh, begin(fresh, "h abc"), 2).tokens)
    assert (engine.calls[0][0][0] > 0) == (kept_prefixes > 0)


def test_the_expected_length_falls_with_sureness() -> None:
    expected: Sequence[float] = []
    for sureness in (9.0, 4.0, 3.0):
        engine = Writer("h abcdefabcd g h")
        engine.sureness = sureness
        drafter = drafter_of(engine)
        proposal = propose(drafter, begin(drafter, "h"), 4)
        assert proposal.expected is not None
        assert 0 < proposal.expected <= len(proposal)
        expected = [*expected, proposal.expected]
    assert list(expected) == sorted(expected, reverse=True)
