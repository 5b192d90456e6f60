"""Predicted outputs: exact, within their limits, refused where there is none, and counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import oneglance as og
from oneglance.checkpoints import load_checkpoint
from oneglance.config import SamplingParams
from oneglance.drafters.base import DraftContext, DraftHints, DraftRequest
from oneglance.drafters.predicted import PredictedDrafter, PredictedSession, read_prediction
from oneglance.errors import ParameterError
from oneglance.sampling.noise import SequentialNoise
from oneglance.testing import check_drafter
from oneglance.types import EngineInfo, PassTrace, Proposal, SpeculationStats, Token
from tests.tiny_models import write_tiny_gguf

TEXT = list(range(100, 160))


@pytest.mark.parametrize("tree_nodes", [None, 5])
@pytest.mark.parametrize("prediction", [(0, 1, 2, 0, 1, 1, 2, 2, 0, 1, 0), (2, 2)])
def test_exact(prediction: tuple[int, ...], tree_nodes: int | None) -> None:
    check_drafter(
        PredictedDrafter, seeds=(0,), tree_nodes=tree_nodes, hints=DraftHints(prediction=prediction)
    )


def begin(
    prediction: list[int],
    own: list[int] | None = None,
    eos_ids: frozenset[int] = frozenset(),
) -> tuple[PredictedDrafter, PredictedSession]:
    drafter = PredictedDrafter(own or ())
    context = DraftContext(
        (1, 2), SamplingParams(), SequentialNoise(0), eos_ids, DraftHints(tuple(prediction))
    )
    return drafter, drafter.start(context)


def propose(
    drafter: PredictedDrafter, session: PredictedSession, k: int = 8, nodes: int | None = None
) -> Proposal:
    proposal = drafter.propose([DraftRequest(session, k, nodes)])[0]
    assert proposal.draft_probs is None
    assert proposal.drafter == "predicted"
    return proposal


def draft(drafter: PredictedDrafter, session: PredictedSession, k: int = 8) -> list[int]:
    proposal = propose(drafter, session, k)
    assert proposal.is_chain
    return [int(token) for token in proposal.tokens]


def test_it_begins_at_the_beginning_and_reads_on() -> None:
    drafter, session = begin(TEXT)
    assert draft(drafter, session) == TEXT[:8]
    drafter.observe(session, TEXT[:9])
    assert draft(drafter, session, 3) == TEXT[9:12]
    assert draft(drafter, session, 1) == TEXT[9:10]
    assert draft(drafter, session, 0) == []


def test_nothing_to_say_at_the_end_and_where_all_is_different() -> None:
    drafter, session = begin(TEXT)
    drafter.observe(session, TEXT)
    assert draft(drafter, session) == []
    drafter, session = begin(TEXT)
    drafter.observe(session, [1, 2, 3, 4])
    assert draft(drafter, session) == []


def test_little_is_drafted_where_little_is_known() -> None:
    drafter, session = begin(TEXT)
    drafter.observe(session, [*TEXT[:5], 7])
    assert draft(drafter, session, 30) == TEXT[6:16], "assumed that one token was changed"
    drafter.observe(session, TEXT[6:7])
    assert draft(drafter, session, 30) == TEXT[7:27], "one token agrees"
    drafter.observe(session, TEXT[7:9])
    assert draft(drafter, session, 30) == TEXT[9:39], "three do"


def test_more_is_drafted_on_an_assumption_that_was_right_before() -> None:
    text = list(range(100, 300))
    drafter, session = begin(text)
    lengths = []
    for start in range(0, 80, 10):
        drafter.observe(session, [*text[start : start + 9], 7])
        lengths.append(len(draft(drafter, session, 30)))
    assert lengths[0] == 10
    assert lengths == sorted(lengths)
    assert lengths[-1] >= 20
    for token in range(8):
        drafter.observe(session, [token])
    drafter.observe(session, [*text[80:90], 7])
    assert len(draft(drafter, session, 30)) < lengths[-1], "it has been wrong since"


def test_it_ends_with_end_of_text() -> None:
    drafter, session = begin([5, 6, 0, 7], eos_ids=frozenset({0}))
    assert draft(drafter, session) == [5, 6, 0]


def test_other_places_are_branches_of_a_tree() -> None:
    drafter, session = begin(TEXT)
    assert propose(drafter, session, 4, 20).tokens.tolist() == TEXT[:4], "there is no other"
    drafter.observe(session, [*TEXT[:5], 7])
    proposal = propose(drafter, session, 3, 20)
    assert proposal.tokens.tolist() == [*TEXT[6:9], *TEXT[5:8]], "changed, or inserted"
    assert proposal.parents.tolist() == [-1, 0, 1, -1, 3, 4]
    assert propose(drafter, session, 3, 4).tokens.tolist() == [*TEXT[6:9], TEXT[5]]
    assert propose(drafter, session, 3, 2).tokens.tolist() == TEXT[6:8]


def test_a_requests_prediction_goes_before_the_file() -> None:
    assert draft(*begin([], own=TEXT)) == TEXT[:8]
    assert draft(*begin([7, 8], own=TEXT)) == [7, 8]


def test_its_estimate_follows_what_is_accepted() -> None:
    drafter, session = begin(TEXT)
    assert propose(drafter, session).expected == pytest.approx(8 * 0.95)
    drafter.observe(session, [*TEXT[:4], 7])
    assert propose(drafter, session).expected == pytest.approx(8 * 0.5), "an assumption"
    drafter.observe(session, TEXT[5:8])
    half_right = 0.9 * 0.95 + 0.1 * 0.5
    assert propose(drafter, session).expected == pytest.approx(8 * half_right)
    drafter.observe(session, TEXT[8:])
    assert propose(drafter, session).expected == 0.0, "nothing is left"


def test_a_request_without_prediction_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"no prediction.*write predicted:FILE"):
        PredictedDrafter().check(DraftHints())
    PredictedDrafter().check(DraftHints((1,)))
    PredictedDrafter([1]).check(DraftHints())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", seed=1)


def test_a_file_is_read_as_tokens(model: Path, tmp_path: Path) -> None:
    tokenizer = load_checkpoint(model).tokenizer
    file = tmp_path / "text.txt"
    file.write_text("the line, the line", encoding="utf-8")
    assert read_prediction(str(file), tokenizer) == tokenizer.encode("the line, the line")


def test_files_that_cannot_be_used_are_refused(model: Path, tmp_path: Path) -> None:
    tokenizer = load_checkpoint(model).tokenizer
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    for name, message in (
        ("missing", "missing' cannot be read .no such file or directory."),
        (".", "cannot be read .is a directory."),
        ("latin", "latin' is not UTF-8 .byte 3."),
        ("empty", "empty' is empty; write predicted:FILE"),
    ):
        with pytest.raises(ParameterError, match=message):
            read_prediction(str(tmp_path / name), tokenizer)


def test_answers_and_usage(model: Path, tmp_path: Path) -> None:
    """Predicting the answer itself, and one that is wrong in its middle."""
    request: dict[str, Any] = {"max_tokens": 40, "temperature": 8.0, "seed": 3, "k": 8}
    with og.load(str(model), drafter="none") as llm:
        plain = llm.generate("Hello", **request)
        assert "completion_tokens_details" not in usage(plain)
        text = plain.text
        half = len(text) // 2
        file = tmp_path / "prediction.txt"
        file.write_text(text[: half - 5] + "#####" + text[half:], encoding="utf-8")
        for drafter in (f"predicted:{file}", f"predicted:{file}+ngram"):
            answer = llm.generate("Hello", drafter=drafter, **request)
            assert answer.token_ids == plain.token_ids
            accepted = sum("predicted" in str(token.drafter) for token in answer.tokens)
            drafted = sum(
                len(each.draft_tokens) for each in answer.trace if "predicted" in each.drafter
            )
            assert usage(answer)["completion_tokens_details"] == {
                "accepted_prediction_tokens": accepted,
                "rejected_prediction_tokens": drafted - accepted,
            }
            assert 0 < accepted < drafted
        with pytest.raises(ParameterError, match="no prediction"):
            llm.generate("Hello", drafter="predicted", **request)


def test_what_is_counted() -> None:
    """Two passes with predictions, of which a stop string cut the last token, one without."""

    def token(token_id: int, drafter: str | None) -> Token:
        return Token(token_id, "accepted" if drafter else "plain", drafter, -1.0, 0)

    def trace(drafter: str, draft: tuple[int, ...]) -> PassTrace:
        return PassTrace(drafter, draft, tuple(range(-1, len(draft) - 1)), (), None, "plain")

    answer = og.Completion(
        text="",
        tokens=(
            token(1, "predicted"),
            token(2, None),
            token(3, "ngram"),
            token(4, None),
            token(5, "ngram+predicted"),
        ),
        finish_reason="stop",
        stop_reason="x",
        prompt_tokens=3,
        drafter="predicted+ngram",
        stats=SpeculationStats(),
        trace=(trace("predicted", (1, 9)), trace("ngram", (3,)), trace("ngram+predicted", (5, 6))),
        seed=None,
        engine=EngineInfo("scripted"),
    )
    counted = answer.prediction_usage
    assert counted is not None
    assert (counted.accepted, counted.rejected) == (2, 2)
    assert replace(answer, drafter="ngram").prediction_usage is None
    assert replace(answer, drafter="draft:predicted").prediction_usage is None


def usage(answer: og.Completion) -> Any:
    return answer.to_dict()["usage"]
