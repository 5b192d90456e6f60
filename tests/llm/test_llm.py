"""The object that users hold, on a tiny random model that is loaded from a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_models import TinyShape, write_tiny_gguf

import oneglance as og
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.engine.base import Batch, PassOutput
from oneglance.engine.factory import make_engine
from oneglance.errors import CapacityError, ParameterError, UnsupportedError
from oneglance.types import SpeculationStats

CONVERSATION = [
    {"role": "user", "content": "Say the line again and again."},
    {"role": "assistant", "content": "the line, the line"},
    {"role": "user", "content": "More."},
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", seed=1)


@pytest.fixture
def llm(model: Path) -> Iterator[og.LLM]:
    with og.load(str(model)) as loaded:
        yield loaded


def num_open(llm: og.LLM) -> int:
    """Sequences that still hold pages of the target's cache."""
    llm.close()
    return sum(1 for sequence in range(1000) if _is_open(llm, sequence))


def _is_open(llm: og.LLM, sequence: int) -> bool:
    try:
        llm.engine.length(sequence)
    except ParameterError:
        return False
    return True


def test_the_five_lines_of_the_readme(llm: og.LLM) -> None:
    completion = llm.generate("Hello", max_tokens=20)
    assert completion.text == llm.tokenizer.decode(completion.token_ids)
    assert "".join(str(piece) for piece in llm.stream("Hello", max_tokens=20)) == completion.text
    assert [c.token_ids for c in llm.batch(["Hello", "Hello"], max_tokens=20)] == [
        completion.token_ids,
        completion.token_ids,
    ]


@pytest.mark.parametrize(
    "sampling", [{}, {"temperature": 8.0, "seed": 3}, {"temperature": 6.0, "top_k": 5, "seed": 4}]
)
def test_every_drafter_gives_the_same_answer(
    llm: og.LLM, model: Path, sampling: dict[str, Any]
) -> None:
    plain = llm.generate(CONVERSATION, drafter="none", max_tokens=30, **sampling)
    assert plain.stats.passes == len(plain.tokens)
    assert {token.kind for token in plain.tokens} == {"plain"}
    for drafter, k in (("ngram", "auto"), ("ngram", 7), (f"draft:{model}", 3)):
        answer = llm.generate(CONVERSATION, drafter=drafter, k=k, max_tokens=30, **sampling)
        assert answer.token_ids == plain.token_ids
        assert [t.logprob for t in answer.tokens] == [t.logprob for t in plain.tokens]
    # The model drafting for itself is always right, so four tokens come with each pass, unless it
    # stops where it is unsure.
    assert answer.stats.acceptance_rate == 1
    engine = make_engine(llm.checkpoint.config, llm.checkpoint.weights)
    itself = DraftModelDrafter(engine, llm.tokenizer.vocab_size, min_confidence=0)
    answer = llm.generate(CONVERSATION, drafter=itself, k=3, max_tokens=30, **sampling)
    assert answer.token_ids == plain.token_ids
    assert answer.stats.acceptance_rate == 1
    assert answer.stats.mean_accepted_length > 3


def test_a_stream_delivers_every_token_once(llm: og.LLM) -> None:
    """Known fault 20: the last tokens and the last piece of text are not lost."""
    request: dict[str, Any] = {"temperature": 8.0, "seed": 8, "max_tokens": 40, "stop": ("th",)}
    request["k"] = 3  # which tokens were drafted depends on the clock where the length does
    whole = llm.generate("Hello", **request)
    pieces = list(llm.stream("Hello", **request))
    assert "".join(piece.text for piece in pieces) == whole.text
    assert [token for piece in pieces for token in piece.tokens] == list(whole.tokens)
    assert [piece.completion is not None for piece in pieces] == [False] * (len(pieces) - 1) + [
        True
    ]
    assert pieces[-1].completion is not None
    assert pieces[-1].completion.token_ids == whole.token_ids
    assert [piece.trace for piece in pieces] == list(whole.trace)


@pytest.mark.parametrize("num_held", [1, 2, 5])
def test_text_held_back_comes_with_the_last_piece(llm: og.LLM, num_held: int) -> None:
    """Known fault 20: the end of the answer begins a stop string, which then never comes."""
    request: dict[str, Any] = {"temperature": 8.0, "seed": 8, "max_tokens": 20, "ignore_eos": True}
    request["k"] = 3
    whole = llm.generate("Hello", **request)
    assert whole.text == llm.tokenizer.decode(whole.token_ids)
    stop = (whole.text.rstrip("\ufffd")[-num_held:] + "never",)
    pieces = list(llm.stream("Hello", stop=stop, **request))
    assert "".join(piece.text for piece in pieces) == whole.text
    assert [token for piece in pieces for token in piece.tokens] == list(whole.tokens)


def test_closing_a_stream_frees_what_it_holds(llm: og.LLM, model: Path) -> None:
    for drafter in ("none", "ngram", f"draft:{model}"):
        stream = llm.stream("Hello", drafter=drafter, max_tokens=50)
        next(stream)
        stream.close()
    assert num_open(llm) == 0


def test_after_closing_it_starts_afresh(llm: og.LLM) -> None:
    answer = llm.generate("Hello", max_tokens=9)
    llm.close()
    assert llm.generate("Hello", max_tokens=9).token_ids == answer.token_ids
    assert num_open(llm) == 0


def test_streams_may_interleave(llm: og.LLM) -> None:
    alone = [llm.generate(text, max_tokens=12).text for text in ("one", "two")]
    streams = [llm.stream(text, max_tokens=12) for text in ("one", "two")]
    texts = ["", ""]
    running = [True, True]
    while any(running):
        for index, stream in enumerate(streams):
            piece = next(stream, None)
            running[index] = piece is not None
            texts[index] += str(piece or "")
    assert texts == alone


def test_a_batch_takes_one_request_for_each(llm: og.LLM) -> None:
    requests = [
        og.SamplingParams(max_tokens=9, temperature=8, seed=1, ignore_eos=True),
        og.SamplingParams(max_tokens=3, ignore_eos=True),
    ]
    answers = llm.batch(["a", "bb"], params=requests)
    for text, request, answer in zip(["a", "bb"], requests, answers, strict=True):
        assert answer.token_ids == llm.generate(text, params=request).token_ids
        assert len(answer.tokens) == request.max_tokens
    with pytest.raises(ParameterError, match="2 prompts and 1 params"):
        llm.batch(["a", "b"], params=requests[:1])
    with pytest.raises(ParameterError, match="list of prompts"):
        llm.batch("a text")
    assert llm.batch([]) == []


def test_a_bad_request_in_a_batch_stops_it_before_any_work(llm: og.LLM) -> None:
    with pytest.raises(CapacityError, match="the model's context is 256"):
        llm.batch(["fine", "x y z " * 400])
    assert num_open(llm) == 0


def test_fresh_randomness_differs_and_a_seed_repeats(llm: og.LLM) -> None:
    def draw(**sampling: Any) -> tuple[int, ...]:
        return llm.generate("Hello", temperature=12.0, max_tokens=20, **sampling).token_ids

    assert draw() != draw()
    assert draw(seed=1) == draw(seed=1) != draw(seed=2)
    assert draw(seed=1) != draw(seed=1, choice=1)


def test_a_text_is_one_user_message_unless_raw(llm: og.LLM) -> None:
    as_message = llm.encode([{"role": "user", "content": "Hello"}])
    assert llm.encode("Hello") == as_message
    assert llm.encode("Hello", raw=True) == llm.tokenizer.encode("Hello")
    assert len(llm.encode("Hello", raw=True)) < len(as_message)


def test_json_object_says_what_the_completion_says(llm: og.LLM) -> None:
    text = llm.generate("Hello", temperature=6.0, seed=4, max_tokens=20).text
    stop = next(character for character in text[5:] if character.isascii())
    answer = llm.generate("Hello", temperature=6.0, seed=4, max_tokens=20, stop=(stop,))
    result: Any = answer.to_dict()
    assert (answer.seed, answer.finish_reason, answer.stop_reason) == (4, "stop", stop)
    for name in ("text", "finish_reason", "stop_reason", "seed"):
        assert result[name] == getattr(answer, name)
    figures = ("passes", "drafted", "accepted", "delivered", "acceptance_rate")
    stats = SpeculationStats(5, 7, 3, 8, 0.25, 0.5, 1.0, 2.0)
    shown: Any = replace(answer, stats=stats).to_dict()["speculation"]
    assert [shown[name] for name in figures] == [5, 7, 3, 8, 3 / 7]
    assert shown["mean_accepted_length"] == 8 / 5
    assert shown["seconds"] == {"prefill": 0.25, "draft": 0.5, "verify": 1.0, "accept": 2.0}


def test_json_object(llm: og.LLM) -> None:
    answer = llm.generate("Hello", max_tokens=5)
    result: Any = answer.to_dict()
    assert result["token_ids"] == list(answer.token_ids)
    assert result["usage"] == {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": 5,
        "total_tokens": answer.prompt_tokens + 5,
    }
    assert result["finish_reason"] == "length"
    speculation = result["speculation"]
    assert speculation["drafter"] == "suffix"
    assert speculation["delivered"] == 5
    assert set(speculation["seconds"]) == {"prefill", "draft", "verify", "accept"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"drafter": "oracle"},
            "Unknown drafter 'oracle'; choose one of: auto, cascade, draft, eagle, grammar, "
            "lookahead, medusa, ngram, none, predicted, self, suffix.",
        ),
        ({"drafter": "ngram:3"}, "takes no argument"),
        ({"drafter": "draft"}, "write draft:MODEL"),
        ({"k": 0}, "k = 0 cannot be used"),
        ({"k": "many"}, "k = 'many' cannot be used"),
        ({"k": True}, "k = True cannot be used"),
        ({"temprature": 1.0}, "Unknown parameter 'temprature'"),
        ({"temperature": -1.0}, r"temperature = -1.0 cannot be used; it must be 0 or more"),
        ({"top_p": 0.0}, "top_p = 0.0"),
        ({"banned_tokens": (10**6,)}, "banned_tokens = 1000000"),
        ({"logit_bias": {-1: 1.0}}, "logit_bias = -1"),
        ({"raw": True, "prompt": CONVERSATION}, "raw = True goes with a text"),
        ({"raw": True, "prompt": ""}, "The prompt has no tokens"),
        ({"prompt": ["one", "two"]}, "for several texts use batch"),
    ],
)
def test_bad_requests_are_refused_by_the_call(
    llm: og.LLM, arguments: dict[str, Any], message: str
) -> None:
    prompt = arguments.pop("prompt", "Hello")
    for call in (llm.generate, llm.stream):
        with pytest.raises(ParameterError, match=message):
            call(prompt, **arguments)


def test_a_model_without_template_takes_texts_only(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "base.gguf", metadata={"tokenizer.chat_template": None})
    with og.load(str(path), drafter="none") as llm:
        assert llm.encode("Hello") == llm.tokenizer.encode("Hello")
        with pytest.raises(UnsupportedError, match="no chat template"):
            llm.generate(CONVERSATION)


def test_no_limit_runs_to_the_end_of_the_context(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "short.gguf", shape=TinyShape(context_length=40))
    with og.load(str(path)) as llm:
        answer = llm.generate("abcd", raw=True, max_tokens=None, ignore_eos=True)
        assert answer.finish_reason == "length"
        assert answer.prompt_tokens + len(answer.tokens) == 40


def test_a_cache_of_limited_size_says_so_and_recovers(model: Path) -> None:
    config = og.EngineConfig(page_size=16, num_pages=4)
    with og.load(str(model), engine_config=config) as llm:
        with pytest.raises(CapacityError, match="4"):
            llm.generate("x y z " * 20, max_tokens=50)
        answer = llm.generate("x", max_tokens=4)
        assert len(answer.tokens) == 4


def test_load_keeps_what_it_is_given(model: Path) -> None:
    with og.load(str(model), drafter=f"draft:{model}", k=1) as llm:
        answer = llm.generate("Hello", max_tokens=9)
        assert answer.drafter == f"draft:{model}"
        assert {len(trace.draft_tokens) for trace in answer.trace} == {0, 1}
        assert len(llm.generate("Hello", max_tokens=9, k=3).trace[0].draft_tokens) == 3
    with pytest.raises(ParameterError, match="Unknown drafter 'oracle'"):
        og.load(str(model), drafter="oracle")


def test_a_draft_model_is_read_at_its_first_use_only(model: Path) -> None:
    told: list[tuple[str, int, int]] = []
    with og.load(str(model), progress=lambda *call: told.append(call)) as llm:
        num_calls = []
        told.clear()
        for _ in range(3):
            llm.generate("Hello", drafter=f"draft:{model}", max_tokens=2)
            num_calls.append(len(told))
            told.clear()
        assert num_calls[1:] == [0, 0]
        assert num_calls[0] > 0


def test_a_conversation_goes_on_where_its_cache_ends(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the prompt is fed in chunks of the configured size."""
    with og.load(str(model), engine_config=og.EngineConfig(prefill_chunk=5)) as llm:
        rows: list[int] = []
        forward = llm.engine.forward

        def noting(batch: Batch) -> PassOutput:
            rows.append(len(batch.trees[0].tokens))
            return forward(batch)

        monkeypatch.setattr(llm.engine, "forward", noting)
        first = llm.generate(CONVERSATION, max_tokens=1)
        full, rest = divmod(first.prompt_tokens - 1, 5)
        assert rows == [5] * full + [rest] * (rest > 0) + [1]
        rows.clear()
        again = llm.generate(CONVERSATION, max_tokens=1)
        assert rows == [1]
        assert again.token_ids == first.token_ids


def test_padding_of_the_models_matrix_is_never_delivered(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "wide.gguf", shape=TinyShape(vocab_padding=300))
    with og.load(str(path)) as llm:
        answer = llm.generate("Hello", temperature=50.0, seed=1, max_tokens=40, ignore_eos=True)
        assert max(answer.token_ids) < llm.tokenizer.vocab_size


def test_a_raw_text_begins_as_the_model_expects(tmp_path: Path) -> None:
    metadata = {"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.add_bos_token": True}
    path = write_tiny_gguf(tmp_path / "bos.gguf", metadata=metadata)
    with og.load(str(path)) as llm:
        assert llm.encode("Hello", raw=True) == [1, *llm.tokenizer.encode("Hello")]


def test_progress_is_told(model: Path) -> None:
    told: list[tuple[str, int, int]] = []
    og.load(str(model), progress=lambda *call: told.append(call))
    assert told
    assert all(0 <= done <= total for _, done, total in told)


def test_names_of_the_package() -> None:
    assert set(og.__all__) == {*og._HOMES, "__version__"}
    for name in og.__all__:
        assert getattr(og, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        og.nothing  # noqa: B018
