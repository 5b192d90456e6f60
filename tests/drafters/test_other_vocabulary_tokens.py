"""Text passes from one vocabulary to another byte for byte, wherever it is cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oneglance.checkpoints import load_checkpoint
from oneglance.checkpoints.base import Tokenizer
from oneglance.checkpoints.catalog import resolve
from oneglance.drafters.other_vocabulary_pair import VocabularyPair
from oneglance.drafters.other_vocabulary_text import LOOK_BEHIND, DraftText
from oneglance.drafters.other_vocabulary_tokens import continue_tokens, encode_aligned
from oneglance.errors import ParameterError
from tests.checkpoints.test_sentencepiece_tokenizer import write_gguf as write_sentence_piece
from tests.small_vocabularies import LongestMatch
from tests.tiny_models import write_tiny_gguf

TEXT = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n\tthe anding=():.é日😀"),
    max_size=40,
)
LETTERS = LongestMatch([b"a", b"b", b"ab", b" ", b"the", *(bytes([b]) for b in range(0x63, 0x7B))])


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    folder = tmp_path_factory.mktemp("vocabularies")
    return {
        "smollm2": load_checkpoint(resolve("smollm2-135m", None)).tokenizer,
        "tiny": load_checkpoint(write_tiny_gguf(folder / "tiny.gguf")).tokenizer,
        "sentence-piece": load_checkpoint(write_sentence_piece(folder)).tokenizer,
    }


def spelled(tokenizer: Tokenizer, ids: Sequence[int]) -> bytes:
    return b"".join(map(tokenizer.token_bytes, ids))


def whole(data: bytes) -> bytes:
    """Without the character that is cut by the end."""
    return data[: len(data) - next((n for n in range(4) if _decodes(data[: len(data) - n])), 0)]


def _decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def can_encode(tokenizer: Tokenizer, text: str) -> bool:
    try:
        tokenizer.encode(text)
    except ParameterError:
        return False
    return True


def byte_tokens(tokenizer: Tokenizer, data: bytes) -> list[int]:
    """Tokens of bytes that may end within a character, whose bytes are then tokens of their own."""
    text = whole(data)
    single = {tokenizer.token_bytes(i): i for i in range(600)}
    return tokenizer.encode(text.decode()) + [single[bytes([b])] for b in data[len(text) :]]


@settings(max_examples=200, deadline=None)
@given(kind=st.sampled_from(["smollm2", "tiny", "sentence-piece"]), text=TEXT, data=st.data())
def test_proposed_bytes_are_those_of_the_draft(
    tokenizers: dict[str, Tokenizer], kind: str, text: str, data: st.DataObject
) -> None:
    """Text cut at any two bytes: what is decided, what is drafted, what nobody knows yet."""
    tokenizer = tokenizers[kind]
    assume(can_encode(tokenizer, text))
    said = text.encode()
    first = data.draw(st.integers(0, len(said)))
    last = data.draw(st.integers(first, len(said)))
    before = byte_tokens(tokenizer, said[:first])
    arguments = (tokenizer, before, said[first:last], tokenizer.token_bytes)
    together = continue_tokens(*arguments)
    apart = continue_tokens(*arguments, stays_apart=True)
    drafted = whole(said[:last])[first:]
    if together is not None:
        assert together == apart
        assert spelled(tokenizer, together) == drafted
        if first <= len(drafted) and whole(said[:first]) == said[:first] and len(before) <= 8:
            joined = tokenizer.encode(whole(said[:last]).decode())
            assert joined[len(joined) - len(together) :] == together
    if kind != "sentence-piece":
        assert apart is not None
    if apart is not None:  # SentencePiece would put a space in front of a text of its own
        assert spelled(tokenizer, apart) == drafted or whole(said[:first]) != said[:first]


@settings(max_examples=200, deadline=None)
@given(kinds=st.permutations(["smollm2", "tiny", "sentence-piece"]), text=TEXT, data=st.data())
def test_draft_tokens_say_what_was_decided_and_drafted(
    tokenizers: dict[str, Tokenizer], kinds: list[str], text: str, data: st.DataObject
) -> None:
    """Whatever was drafted in between, right or wrong, wherever the decided tokens end."""
    target, draft = tokenizers[kinds[0]], tokenizers[kinds[1]]
    assume(all(can_encode(tokenizer, text) for tokenizer in (target, draft)))
    ids = target.encode(text)
    said = spelled(target, ids)
    size = data.draw(st.integers(0, len(ids)))
    state = DraftText(VocabularyPair(target, draft), ids[:size])
    while True:
        decided = spelled(target, ids[:size])
        drafted = spelled(draft, state.tokens) + state.pending
        assert drafted.endswith(decided + state.ahead)
        assert len(drafted) <= len(decided + state.ahead) + 1, "more than a space in front"
        assert not _decodes(state.pending) or not state.pending
        assert state.num_unchanged <= len(state.tokens)
        if size == len(ids):
            break
        comes_true = bool(state.pending) or data.draw(st.booleans())
        future = said[len(decided) :] if comes_true else "thé\n  the".encode()
        for token in _continuation(draft, state, future)[: data.draw(st.integers(0, 4))]:
            word = draft.token_bytes(token)
            if word.startswith(state.pending) or state.pending.startswith(word):
                state.append(token, 0.9)
        state.num_unchanged = len(state.tokens)
        before = list(state.tokens)
        count = data.draw(st.integers(1, 4))
        state.observe(ids[size : size + count])
        size = min(size + count, len(ids))
        assert state.tokens[: state.num_unchanged] == before[: state.num_unchanged]


def _continuation(draft: Tokenizer, state: DraftText, future: bytes) -> list[int]:
    """What a draft model might write after what it has written."""
    if state.ahead:
        future = future[len(state.ahead) :]
    return encode_aligned(draft, state.pending + future, draft.token_bytes)[0]


def test_drafts_that_come_true_are_kept_even_beyond_what_is_decided() -> None:
    target = LongestMatch([b"a", b"b", b"c", b"d"])
    draft = LongestMatch([b"abc", b"da", b"a", b"b", b"c", b"d", b"bc"])
    state = DraftText(VocabularyPair(target, draft), [0, 1])
    assert state.tokens == [2, 3]
    state.append(4, 1.0)
    state.append(1, 0.5)
    state.num_unchanged = 4
    state.observe([2, 3])  # "cd": the last token says one "a" more
    assert (state.tokens, state.ahead, state.num_unchanged) == ([2, 3, 4, 1], b"a", 4)
    assert state.ahead_confidences == [(1, 0.5)]
    state.observe([1])  # "b", not "a": the token that said both goes
    assert (state.tokens, state.ahead, state.num_unchanged) == ([2, 3, 4, 5, 3], b"", 3)


def test_text_is_encoded_anew_where_old_and_new_tokens_meet() -> None:
    """ "a" + "b" would be one token, but the draft model has them apart already."""
    target = LongestMatch([b"a", b"b", b"c"])
    draft = LongestMatch([b"ab", b"a", b"b", b"c", b"bc"])
    state = DraftText(VocabularyPair(target, draft), [0])
    state.append(2, 1.0)
    state.append(3, 1.0)
    state.num_unchanged = 3
    state.observe([1, 0, 1])  # "b" as drafted, then "ab" for "c"
    assert (state.tokens, state.num_unchanged) == ([1, 2, 0], 2)
    state.observe([2])
    assert (state.tokens, state.num_unchanged) == ([1, 2, 0, 3], 2)
    assert state.is_encoded


def test_work_is_bounded_however_long_the_text() -> None:
    calls: list[int] = []

    class Noted(LongestMatch):
        def encode(
            self, text: str, parse_special: bool = False, add_bos: bool = False
        ) -> list[int]:
            calls.append(len(text))
            return super().encode(text, parse_special, add_bos)

    state = DraftText(VocabularyPair(LETTERS, Noted(LETTERS.words)), LETTERS.encode("the " * 50))
    calls.clear()
    for token in LETTERS.encode("the ab " * 20):
        state.observe([token])
        assert len(state.behind) == LOOK_BEHIND
    assert max(calls) <= 3 * (LOOK_BEHIND + 1)


def test_control_tokens_pass_by_name_and_begin_text_anew() -> None:
    target = LongestMatch(["<s>", "<turn>", "<own>", b"a", b"b"], bos="<s>")
    draft = LongestMatch([b"ab", b"b", b"a", "<turn>", "<s>"], bos="<s>")
    pair = VocabularyPair(target, draft)
    assert DraftText(pair, [0, 3, 1, 4]).tokens == [4, 2, 3, 1]  # one beginning, not two
    assert DraftText(pair, [3, 2, 4]).tokens == [4, 2, 1]  # never joined over a control token
    state = DraftText(pair, [1, 3])
    state.append(1, 1.0)
    state.observe([1])  # a turn where "b" was drafted
    assert (state.tokens, state.ahead, state.behind) == ([4, 3, 2, 3], b"", [])


def test_what_the_draft_cannot_express_is_left_out() -> None:
    target = LongestMatch([b"a", b"\x00", b"b", b"\xff", "日".encode()[:2], "日".encode()[2:]])
    draft = LongestMatch([b"a", b"b", "日".encode()])
    pair = VocabularyPair(target, draft)
    assert DraftText(pair, [0, 1, 2, 3, 0]).tokens == [0, 1, 0]
    state = DraftText(pair, [0, 4])
    assert (state.tokens, state.pending) == ([0], "日".encode()[:2])
    state.observe([5])
    assert (state.tokens, state.pending) == ([0, 2], b"")


def test_what_the_vocabularies_share() -> None:
    target = LongestMatch([b"x", b"the", "<end>", "<own>", b"a", b"a"], ends=["<end>"])
    draft = LongestMatch(["<stop>", b"a", b"the", "<turn>", b"they"], ends=["<stop>"])
    pair = VocabularyPair(target, draft)
    targets, drafts = pair.shared
    assert dict(zip(targets.tolist(), drafts.tolist(), strict=True)) == {1: 2, 2: 0, 4: 1}
    assert (pair.control_for_target(0), pair.control_for_target(3)) == (2, None)
    assert pair.control_for_draft(2) is None
    several = LongestMatch([b"a", "<end>", "<stop>"], ends=["<end>", "<stop>"])
    assert VocabularyPair(several, draft).control_for_target(0) == 2
    unlike = LongestMatch([b"a", "<end>", "<other>"], ends=["<end>", "<other>"])
    assert VocabularyPair(unlike, draft).control_for_target(0) is None


def test_pairs_that_cannot_pass_text_say_why() -> None:
    every = LongestMatch([bytes([byte]) for byte in range(256)])
    few = LongestMatch([bytes([byte]) for byte in range(256) if byte != ord("q")])
    assert VocabularyPair(every, every).refusal() is None
    for pair, role in (
        (VocabularyPair(few, every), "target"),
        (VocabularyPair(every, few), "draft"),
    ):
        reason = pair.refusal()
        assert reason is not None
        assert f"vocabulary of the {role}" in reason
        assert "no token for 'q'" in reason
