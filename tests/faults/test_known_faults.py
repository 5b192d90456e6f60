"""One test for each kind of fault that users of other speculative decoders report.

Numbers are those of the list in `docs/known-faults.md`. Each test fails if the fault is built in.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.random_models import random_model
from tests.small_vocabularies import LongestMatch
from tests.tiny_models import TinyShape, write_tiny_gguf
from tests.tiny_models import vocabulary as tiny_words

from oneglance.checkpoints import load_checkpoint
from oneglance.config import EngineConfig, SamplingParams
from oneglance.constraints import Constraint
from oneglance.control.length import Control
from oneglance.control.part import PartLength
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import DecodingSequence, Vocabulary
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.factory import make_drafter
from oneglance.drafters.none import NoDrafter
from oneglance.drafters.setup import DrafterSetup
from oneglance.engine.reference import ReferenceEngine
from oneglance.errors import CapacityError, UnsupportedError
from oneglance.sampling.constraint import Grammars
from oneglance.sampling.noise import Noise, SequentialNoise
from oneglance.sampling.softmax import softmax
from oneglance.testing import ScriptedDrafter, ScriptedEngine, random_script, total_variation
from oneglance.types import ROOT, Float32Array, Float64Array, Proposal, SpeculationStats
from oneglance.verify.base import TargetLaw
from oneglance.verify.block import accept_block
from oneglance.verify.chain import accept_chain
from oneglance.verify.enumeration import enumerate_outcomes

V = 6
PROMPT = (0, 1, 2, 0, 1)
SCRIPT = random_script(V, seed=3)
NEAR_SCRIPT = random_script(V, seed=4, spread=0.4)


def near_law(prefix: tuple[int, ...]) -> Float64Array:
    """A draft's law that resembles the target's: some drafts are kept, some are not."""
    return softmax((SCRIPT(prefix) + NEAR_SCRIPT(prefix)).astype(np.float64))


def vocabulary(*eos_ids: int) -> Vocabulary:
    return Vocabulary(V, frozenset(eos_ids), lambda token: bytes([97 + token]))


def answer(
    params: SamplingParams,
    drafter: Drafter[Any] | None = None,
    eos_ids: Sequence[int] = (),
    k: int = 4,
    context_length: int = 64,
    prompt: Sequence[int] = PROMPT,
) -> DecodingSequence:
    target = ScriptedEngine(SCRIPT, V, context_length)
    decoder = Decoder(target, vocabulary(*eos_ids), drafter or NoDrafter(), k)
    results = [sequence for _, sequence, _ in decoder.run([prompt], [params])]
    assert target.num_open == 0
    return results[-1]


def ids(sequence: DecodingSequence) -> list[int]:
    return [token.token_id for token in sequence.tokens]


def top_drafter() -> ScriptedDrafter:
    return ScriptedDrafter(near_law, kind="top")


class Oracle(Drafter[list[int]]):
    """Drafts what it is told, whatever the target thinks; used to force blocks of known tokens."""

    name = "oracle"

    def __init__(self, follow: Callable[[tuple[int, ...]], int]) -> None:
        self._follow = follow

    def start(self, context: DraftContext) -> list[int]:
        return list(context.prompt)

    def propose(self, requests: Sequence[DraftRequest[list[int]]]) -> list[Proposal]:
        proposals = []
        for request in requests:
            draft: list[int] = []
            for _ in range(request.num_draft_tokens):
                draft.append(self._follow((*request.session, *draft)))
            proposals.append(Proposal.chain(draft, drafter=self.name))
        return proposals

    def observe(self, session: list[int], tokens: Sequence[int]) -> None:
        session.extend(tokens)

    def close(self, session: list[int]) -> None:
        session.clear()


def perfect(logits_of: Callable[[tuple[int, ...]], Float32Array] = SCRIPT) -> Oracle:
    """Drafts the argmax of the model: whole blocks are accepted in greedy decoding."""
    return Oracle(lambda prefix: int(np.argmax(logits_of(prefix))))


class TableLaw(TargetLaw):
    """A target's law given as rows, node by node."""

    def __init__(self, rows: Sequence[Float64Array]) -> None:
        self.vocab_size = len(rows[0])
        self.is_greedy = False
        self.position = 0
        self._rows = rows

    def logits(self, node: int) -> Float64Array:
        with np.errstate(divide="ignore"):
            return np.log(self._rows[node + 1])

    def probs(self, node: int) -> Float64Array:
        return self._rows[node + 1]

    def argmax(self, node: int) -> int:
        return int(np.argmax(self._rows[node + 1]))


WARPS = SamplingParams(temperature=0.8, top_k=3, top_p=0.9, min_p=0.05, presence_penalty=0.5)


def test_01_reported_draft_law_is_the_law_drawn_from() -> None:
    """The joint law of drafts, by enumeration, is the product of the laws they report."""
    reported: dict[tuple[int, ...], float] = {}

    def run(noise: Noise) -> tuple[int, ...]:
        drafter = DraftModelDrafter(ScriptedEngine(NEAR_SCRIPT, V), V)
        session = drafter.start(DraftContext(PROMPT, WARPS, noise))
        proposal = drafter.propose([DraftRequest(session, 3)])[0]
        assert proposal.draft_probs is not None
        draft = tuple(int(token) for token in proposal.tokens)
        laws = proposal.draft_probs
        reported[draft] = float(np.prod([law[t] for law, t in zip(laws, draft, strict=True)]))
        return draft

    drawn = enumerate_outcomes(run)
    assert len(drawn) > 10
    assert total_variation(drawn, reported) < 1e-12
    greedy = DraftModelDrafter(ScriptedEngine(NEAR_SCRIPT, V), V)
    session = greedy.start(DraftContext(PROMPT, SamplingParams(), SequentialNoise(0)))
    assert greedy.propose([DraftRequest(session, 2)])[0].draft_probs is None


@pytest.mark.parametrize("rule", [accept_chain, accept_block])
def test_02_accepts_by_the_ratio_of_the_same_token_and_draws_from_the_residual(
    rule: Callable[[Proposal, TargetLaw, Noise], Any],
) -> None:
    generator = np.random.default_rng(0)
    target_probs, draft_probs, after = generator.dirichlet(np.ones(4), size=3)
    residual = np.maximum(target_probs - draft_probs, 0)
    residual /= residual.sum()
    for token in range(4):
        proposal = Proposal.chain([token], [draft_probs])

        def outcome(noise: Noise, proposal: Proposal = proposal) -> tuple[int, int | None]:
            acceptance = rule(proposal, TableLaw([target_probs, after]), noise)
            return len(acceptance.path), None if acceptance.path else acceptance.next_token

        law = enumerate_outcomes(outcome)
        kept = min(1.0, target_probs[token] / draft_probs[token])
        expected: dict[tuple[int, int | None], float] = {(1, None): kept} | {
            (0, other): (1 - kept) * residual[other] for other in range(4)
        }
        assert total_variation(law, expected) < 1e-12


def test_02_uniform_numbers_are_fine_grained() -> None:
    """Multiples of 1/1000, or half-precision numbers, make rare outcomes too frequent."""
    rare, count = 1e-4, 200_000
    noise = SequentialNoise(seed=0)
    law = np.array([1.0 - rare, rare])
    heads = sum(noise.coin(rare) for _ in range(count))
    tails = sum(not noise.coin(1 - rare) for _ in range(count))
    ones = sum(noise.draw(law) for _ in range(count // 5))
    for times, expected in ((heads, count * rare), (tails, count * rare), (ones, count / 5 * rare)):
        assert abs(times - expected) < 4 * expected**0.5


def test_03_one_array_in_one_precision_serves_the_draw_and_the_ratio() -> None:
    drawn_from: list[int] = []

    class Spy(SequentialNoise):
        def draw(self, probs: Float64Array) -> int:
            assert probs.dtype == np.float64
            drawn_from.append(id(probs))
            return super().draw(probs)

    drafter = DraftModelDrafter(ScriptedEngine(NEAR_SCRIPT, V), V)
    session = drafter.start(DraftContext(PROMPT, WARPS, Spy(0)))
    proposal = drafter.propose([DraftRequest(session, 4)])[0]
    assert proposal.draft_probs is not None
    assert [id(law) for law in proposal.draft_probs] == drawn_from


@pytest.mark.parametrize(
    "warps",
    [
        {"min_p": 0.5},
        {"top_k": 1},
        {"top_p": 0.3},
        {"logit_bias": {4: 50.0}},
        {"logit_bias": {5: -50.0}},
        {"banned_tokens": (1, 3)},
        {"presence_penalty": 2.0},
        {"frequency_penalty": 2.0},
        {"repetition_penalty": 3.0},
        {"min_tokens": 12},
    ],
)
@pytest.mark.parametrize("depth", range(5))
def test_04_every_verified_position_is_fully_warped(warps: dict[str, Any], depth: int) -> None:
    """A block of unlikely tokens is kept or not exactly as plain decoding with this seed would."""
    for seed in range(6):
        params = SamplingParams(max_tokens=12, temperature=1.5, seed=seed, **warps)
        plain = answer(params, eos_ids=[2])
        tokens = ids(plain)
        # Right up to `depth`, then a token that the unwarped model might well choose.
        full = (*PROMPT, *tokens)

        def follow(prefix: tuple[int, ...], full: tuple[int, ...] = full) -> int:
            is_right = len(prefix) < len(full) and (len(prefix) - len(PROMPT)) % 5 != depth
            return full[len(prefix)] if is_right else int(np.argmax(SCRIPT(prefix)))

        speculative = answer(params, Oracle(follow), eos_ids=[2], k=5)
        assert ids(speculative) == tokens
        assert speculative.ending == plain.ending


def replaying(plain: DecodingSequence, prompt: Sequence[int] = PROMPT) -> Oracle:
    """Drafts the very tokens of an answer: blocks are accepted whole."""
    tokens = (*prompt, *ids(plain))
    return Oracle(lambda prefix: tokens[len(prefix)] if len(prefix) < len(tokens) else 0)


PENALTIES: tuple[dict[str, Any], ...] = (
    {"frequency_penalty": 0.6, "repetition_penalty": 1.3},
    {"frequency_penalty": 2.0},
    {"presence_penalty": 2.0},
    {"repetition_penalty": 3.0},
)


@pytest.mark.parametrize("penalties", PENALTIES)
@pytest.mark.parametrize("first", range(V))
def test_05_penalties_see_every_token_of_an_accepted_block(
    penalties: dict[str, Any], first: int
) -> None:
    params = SamplingParams(max_tokens=24, **penalties)
    prompt = (*PROMPT, first)
    plain = answer(params, prompt=prompt)
    speculative = answer(params, replaying(plain, prompt), prompt=prompt)
    assert ids(speculative) == ids(plain)
    assert speculative.stats.mean_accepted_length > 4, "blocks were not accepted whole"
    assert speculative.history.output == tuple(ids(plain))


@pytest.mark.parametrize("name", ["frequency_penalty", "presence_penalty"])
def test_06_penalties_are_not_ignored_when_speculating(name: str) -> None:
    """Drafted by what the model would say without the penalty, and by what it says with it."""
    for first in range(V):
        prompt = (*PROMPT, first)
        penalised = SamplingParams(max_tokens=30, **{name: 20.0})  # type: ignore[arg-type]
        plain = answer(penalised, prompt=prompt)
        without = answer(SamplingParams(max_tokens=30), prompt=prompt)
        assert ids(plain) != ids(without)
        for drafter in (top_drafter(), perfect(), replaying(plain, prompt)):
            assert ids(answer(penalised, drafter, prompt=prompt)) == ids(plain)


def test_07_logits_processors_run_at_every_position() -> None:
    seen: list[tuple[int, ...]] = []

    def alternate(tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
        seen.append(tokens)
        return np.where(np.arange(V) % 2 == len(tokens) % 2, logits, -np.inf)

    params = SamplingParams(max_tokens=12, logits_processors=(alternate,))
    plain = answer(params)
    assert all(token % 2 == (len(PROMPT) + i) % 2 for i, token in enumerate(ids(plain)))
    seen.clear()
    assert ids(answer(params, replaying(plain))) == ids(plain)
    assert {len(prefix) for prefix in seen} == set(range(len(PROMPT), len(PROMPT) + 12))


@pytest.mark.parametrize("ending", ["eos", "stop", "length"])
def test_07_processors_are_not_asked_about_what_follows_the_end(ending: str) -> None:
    """A grammar allows nothing after its end; a block reaches there, plain decoding does not."""
    unlimited = ids(answer(SamplingParams(max_tokens=12)))
    text = bytes(97 + token for token in unlimited).decode()
    eos_ids = [unlimited[5]] if ending == "eos" else []
    length = 6 if ending == "length" else 12
    stop: tuple[str, ...] = (text[4:6],) if ending == "stop" else ()

    def grammar(tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
        output = tokens[len(PROMPT) :]
        is_over = output[-1:] == (unlimited[5],) if eos_ids else len(output) >= length
        is_over |= bool(stop) and stop[0] in bytes(97 + token for token in output).decode()
        if is_over:
            raise ValueError("the grammar has ended")
        return logits

    for temperature, seed in ((0.0, None), (1.0, 3)):
        params = SamplingParams(
            max_tokens=length,
            stop=stop,
            temperature=temperature,
            seed=seed,
            logits_processors=(grammar,),
        )
        plain = answer(params, eos_ids=eos_ids)
        itself = DraftModelDrafter(ScriptedEngine(SCRIPT, V), V)
        for drafter in (perfect(), replaying(plain), itself):
            speculative = answer(params, drafter, eos_ids=eos_ids, k=9)
            assert ids(speculative) == ids(plain)
            assert speculative.ending == plain.ending


def test_08_end_of_text_inside_an_accepted_block_ends_the_answer() -> None:
    unlimited = ids(answer(SamplingParams(max_tokens=30)))
    eos = unlimited[5]
    cut = unlimited.index(eos)
    for drafter in (perfect(), top_drafter()):
        result = answer(SamplingParams(max_tokens=30), drafter, eos_ids=[eos], k=8)
        assert ids(result) == unlimited[: cut + 1]
        assert result.text == "".join(chr(97 + token) for token in unlimited[:cut])
        assert result.ending is not None
        assert result.ending.finish_reason == "stop"
        assert result.ending.stop_reason == eos


def test_09_the_earliest_event_in_a_block_wins() -> None:
    unlimited = ids(answer(SamplingParams(max_tokens=30)))
    text = bytes(97 + token for token in unlimited).decode()
    for length in range(1, 12):
        for start in range(8):
            params = SamplingParams(max_tokens=length, stop=(text[start : start + 2],))
            plain = answer(params)
            speculative = answer(params, perfect(), k=9)
            assert speculative.ending == plain.ending
            assert speculative.text == plain.text
            assert ids(speculative) == ids(plain)
            first = text.find(params.stop[0])
            assert plain.ending is not None
            is_stopped = first + 2 <= length
            assert plain.ending.finish_reason == ("stop" if is_stopped else "length")
            assert plain.text == (text[:first] if is_stopped else text[:length])


def test_09_end_of_text_at_the_length_limit_is_a_stop() -> None:
    unlimited = ids(answer(SamplingParams(max_tokens=30)))
    for eos in set(unlimited):
        length = unlimited.index(eos) + 1
        for drafter in (NoDrafter(), perfect()):
            result = answer(SamplingParams(max_tokens=length), drafter, eos_ids=[eos], k=9)
            assert ids(result) == unlimited[:length]
            assert result.ending is not None
            assert (result.ending.finish_reason, result.ending.stop_reason) == ("stop", eos)


def test_10_text_ids_and_logprobs_are_cut_alike() -> None:
    unlimited = ids(answer(SamplingParams(max_tokens=30)))
    text = bytes(97 + token for token in unlimited).decode()
    params = SamplingParams(max_tokens=30, stop=(text[6:9],), top_logprobs=2)
    result = answer(params, perfect(), k=12)
    first = text.find(params.stop[0])
    assert result.text == text[:first]
    assert ids(result) == unlimited[:first]
    assert all(len(token.top_logprobs) == 2 for token in result.tokens)
    assert result.stats.delivered == first


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_11_logprobs_are_the_targets_at_each_position(temperature: float) -> None:
    params = SamplingParams(
        max_tokens=20, temperature=temperature, seed=5 if temperature else None, top_logprobs=3
    )
    result = answer(params, top_drafter())
    assert {token.kind for token in result.tokens} >= {"accepted", "recovered"}
    prefix: tuple[int, ...] = PROMPT
    for token in result.tokens:
        law = np.log(softmax(SCRIPT(prefix).astype(np.float64)))
        assert token.logprob == pytest.approx(law[token.token_id], abs=1e-12)
        best = np.argsort(-law, kind="stable")[:3]
        assert [alternative for alternative, _ in token.top_logprobs] == list(best)
        assert [value for _, value in token.top_logprobs] == pytest.approx(list(law[best]))
        prefix = (*prefix, token.token_id)


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("k", [1, 4, 16])
def test_12_exactly_what_was_asked_for_is_delivered_and_counted(max_tokens: int, k: int) -> None:
    for drafter in (perfect(), top_drafter(), NoDrafter()):
        result = answer(SamplingParams(max_tokens=max_tokens), drafter, k=k)
        assert len(ids(result)) == max_tokens == result.stats.delivered
        assert len(result.text) == max_tokens
        missing = max_tokens
        for trace in result.trace:
            assert len(trace.draft_tokens) < missing, "drafted what could never be delivered"
            missing -= len(trace.accepted) + (trace.next_token is not None)
        assert missing == 0


def test_12_an_answer_that_ends_early_is_counted_as_it_is() -> None:
    unlimited = ids(answer(SamplingParams(max_tokens=30)))
    text = bytes(97 + token for token in unlimited).decode()
    eos = unlimited[5]
    for drafter in (perfect(), top_drafter(), NoDrafter()):
        ended = answer(SamplingParams(max_tokens=30), drafter, eos_ids=[eos], k=8)
        assert ended.stats.delivered == len(ids(ended)) == unlimited.index(eos) + 1
        stopped = answer(SamplingParams(max_tokens=30, stop=(text[6:9],)), drafter, k=8)
        assert stopped.stats.delivered == len(ids(stopped)) == text.find(text[6:9])


@pytest.mark.parametrize("k", [1, 3, 7])
def test_13_greedy_bits_do_not_depend_on_speculation(k: int) -> None:
    """On real arithmetic: logprobs are equal to the last bit whatever shared the pass."""
    config, weights = random_model(seed=1)
    words = Vocabulary(config.vocab_size, frozenset(), lambda _: b"x")
    params = SamplingParams(max_tokens=24, top_logprobs=4)
    prompt = [3, 5, 7, 3, 5]

    def run(drafter: Drafter[Any]) -> list[tuple[int, float, tuple[tuple[int, float], ...]]]:
        decoder = Decoder(ReferenceEngine(config, weights, EngineConfig()), words, drafter, k)
        sequence = [sequence for _, sequence, _ in decoder.run([prompt], [params])][-1]
        return [(t.token_id, t.logprob, t.top_logprobs) for t in sequence.tokens]

    plain = run(NoDrafter())
    answer_ids = [*prompt, *(token for token, _, _ in plain)]

    def sometimes_right(prefix: tuple[int, ...]) -> int:
        right = answer_ids[len(prefix)] if len(prefix) < len(answer_ids) else 0
        return right if len(prefix) % 4 else (right + 1) % config.vocab_size

    assert run(Oracle(sometimes_right)) == plain


def test_16_the_context_limit_ends_the_answer_and_nothing_else() -> None:
    for context_length in range(len(PROMPT) + 1, len(PROMPT) + 9):
        params = SamplingParams(max_tokens=None)
        plain = answer(params, context_length=context_length)
        speculative = answer(params, perfect(), k=8, context_length=context_length)
        assert ids(speculative) == ids(plain)
        assert len(ids(plain)) == context_length - len(PROMPT)
        assert speculative.ending is not None
        assert speculative.ending.finish_reason == "length"
    with pytest.raises(CapacityError, match=f"{len(PROMPT)} tokens and the model's context is 5"):
        answer(SamplingParams(), context_length=len(PROMPT))


def test_16_a_shorter_context_of_the_draft_ends_its_drafting_only() -> None:
    draft = ScriptedEngine(NEAR_SCRIPT, V, context_length=10)
    drafter = DraftModelDrafter(draft, V, min_confidence=0.0)
    result = answer(SamplingParams(max_tokens=20), drafter)
    assert ids(result) == ids(answer(SamplingParams(max_tokens=20)))
    drafted = [len(trace.draft_tokens) for trace in result.trace]
    assert drafted[0] > 0
    assert drafted[-1] == 0
    for length in range(len(PROMPT), 11):  # the last drafted token need not be fed: one more
        session = drafter.start(
            DraftContext((*PROMPT, 0, 0, 0, 0, 0)[:length], SamplingParams(), SequentialNoise(0))
        )
        proposal = drafter.propose([DraftRequest(session, 20)])[0]
        assert len(proposal) == 10 - length + 1


@pytest.mark.parametrize("seed", [None, 9])
def test_18_a_batch_accepts_raggedly(seed: int | None) -> None:
    """Each of five sequences gets as far as it gets, and exactly where it would get alone.

    With a seed, each row has its own.
    """
    prompts = [(0, 1), (2,), (3, 4, 5, 3), (1, 1, 1), (5, 0, 2)]
    temperature = 0.0 if seed is None else 1.0
    params = [
        SamplingParams(
            max_tokens=12 + index,
            temperature=temperature,
            seed=None if seed is None else seed + index,
        )
        for index in range(5)
    ]
    target = ScriptedEngine(SCRIPT, V)
    decoder = Decoder(target, vocabulary(), top_drafter(), k=4)
    results: dict[int, DecodingSequence] = {}
    for index, sequence, _ in decoder.run(prompts, params):
        results[index] = sequence
    accepted_by_pass: dict[int, set[int]] = {}
    for index, (prompt, request) in enumerate(zip(prompts, params, strict=True)):
        assert ids(results[index]) == ids(answer(request, prompt=prompt))
        assert results[index].stats.delivered == 12 + index
        for number, trace in enumerate(results[index].trace):
            accepted_by_pass.setdefault(number, set()).add(len(trace.accepted))
    assert any(len(counts) > 2 for counts in accepted_by_pass.values()), "nothing was ragged"
    assert target.num_open == 0


@pytest.mark.parametrize("draft_width", [V - 2, V, V + 1])
def test_21_padding_differs_and_nothing_else(draft_width: int) -> None:
    """Rows are cut to the vocabulary, or padded with what is never drawn, whatever their width."""

    def padded(prefix: tuple[int, ...]) -> Float32Array:
        return np.concatenate([SCRIPT(prefix), np.full(3, 99, dtype=np.float32)])

    def of_draft(prefix: tuple[int, ...]) -> Float32Array:
        # Lower than 0, so that padding of 0 would be preferred to real tokens.
        return np.append(NEAR_SCRIPT(prefix) - 9, np.float32(99))[:draft_width]

    target = ScriptedEngine(padded, V + 3)
    drafter = DraftModelDrafter(ScriptedEngine(of_draft, draft_width), vocab_size=V)
    for temperature, seed in ((0.0, None), (1.0, 3), (1.0, None)):
        params = SamplingParams(max_tokens=15, temperature=temperature, seed=seed)
        decoder = Decoder(target, vocabulary(), drafter, k=3)
        result = [sequence for _, sequence, _ in decoder.run([PROMPT], [params])][-1]
        assert max(ids(result)) < V
        drafted = {token for trace in result.trace for token in trace.draft_tokens}
        assert max(drafted) < min(V, draft_width)
        if temperature == 0 or seed is not None:
            assert ids(result) == ids(answer(params))


def test_21_another_vocabulary_is_mapped_by_its_strings_or_refused(tmp_path: Path) -> None:
    """Ids mean different text to each; nothing but speed may depend on it."""
    swapped, lacking = tiny_words(), tiny_words()
    swapped[10], swapped[60] = swapped[60], swapped[10]
    lacking[lacking.index("q")] = "qq"
    small = write_tiny_gguf(tmp_path / "small.gguf", seed=0)
    wider = write_tiny_gguf(tmp_path / "wider.gguf", shape=TinyShape(vocab_padding=5))
    other = write_tiny_gguf(tmp_path / "other.gguf", metadata={"tokenizer.ggml.tokens": swapped})
    without = write_tiny_gguf(tmp_path / "not.gguf", metadata={"tokenizer.ggml.tokens": lacking})
    target = load_checkpoint(small)
    setup = DrafterSetup(
        target=target,
        target_engine=ReferenceEngine(target.config, target.weights),
        load_checkpoint=lambda name: load_checkpoint(Path(name)),
        make_engine=lambda checkpoint: ReferenceEngine(checkpoint.config, checkpoint.weights),
        engine_config=EngineConfig(),
        local_drafts=lambda _: [],
        make_length=lambda _, num_prompt: PartLength(Control(), num_prompt),
    )
    words = target.tokenizer
    vocabulary = Vocabulary(words.vocab_size, words.eos_ids, words.token_bytes)
    prompt = words.encode("the rain in")
    drafters = [make_drafter(f"draft:{each}", setup) for each in (small, wider, other)]
    for temperature, seed in ((0.0, None), (1.0, 3)):
        params = SamplingParams(max_tokens=12, temperature=temperature, seed=seed)
        results = []
        for drafter in (NoDrafter(), *drafters):
            engine = ReferenceEngine(target.config, target.weights)
            decoder = Decoder(engine, vocabulary, drafter, k=3)
            sequence = [sequence for _, sequence, _ in decoder.run([prompt], [params])][-1]
            results.append(ids(sequence))
            assert isinstance(drafter, NoDrafter) or sequence.stats.drafted > 0
        assert all(result == results[0] for result in results)
    with pytest.raises(UnsupportedError, match="has no token for 'q', so text cannot pass"):
        make_drafter(f"draft:{without}", setup)


def test_24_one_definition_of_each_figure() -> None:
    """Counts can be recounted from the trace and from the tokens; rates are made of counts only."""
    pooled = SpeculationStats()
    results = []
    for params in (
        SamplingParams(max_tokens=25),
        SamplingParams(max_tokens=25, temperature=1.0, seed=2),
        SamplingParams(max_tokens=25, stop=("ab", "ca")),
    ):
        result = answer(params, top_drafter())
        stats = result.stats
        kinds = Counter(token.kind for token in result.tokens)
        assert stats.passes == len(result.trace)
        assert stats.drafted == sum(len(trace.draft_tokens) for trace in result.trace)
        assert stats.accepted == kinds["accepted"]
        assert stats.delivered == len(result.tokens) == kinds.total()
        assert stats.acceptance_rate == stats.accepted / stats.drafted
        assert stats.mean_accepted_length == stats.delivered / stats.passes
        if params.stop == ():
            assert stats.accepted == sum(len(trace.accepted) for trace in result.trace)
            own = sum(trace.next_token is not None for trace in result.trace)
            assert stats.delivered == stats.accepted + own
        assert all(
            (token.drafter == "scripted") == (token.kind == "accepted") for token in result.tokens
        )
        pooled.add(stats)
        results.append(result)
    for name in vars(pooled):
        assert getattr(pooled, name) == sum(getattr(result.stats, name) for result in results)
    drafted = sum(len(trace.draft_tokens) for result in results for trace in result.trace)
    assert pooled.acceptance_rate == pooled.accepted / drafted


def test_kinds_say_how_each_pass_ended() -> None:
    result = answer(SamplingParams(max_tokens=25), top_drafter())
    for trace in result.trace[:-1]:
        if not trace.draft_tokens:
            assert trace.kind == "plain"
        elif len(trace.accepted) == len(trace.draft_tokens):
            assert trace.kind == "bonus"
        else:
            assert trace.kind == "recovered"
    assert all(trace.parents[0] == ROOT for trace in result.trace if trace.draft_tokens)


@pytest.mark.parametrize("seed", [None, 3])
def test_14_a_grammar_goes_forward_in_a_block_and_back_on_rejection(seed: int | None) -> None:
    table = LongestMatch([b"a", b"b", b"ab", b"c", b"d", "<end>"], ends=["<end>"])
    params = SamplingParams(
        temperature=0.0 if seed is None else 1.0,
        seed=seed,
        constraint=Constraint.regex("(ab|ca?|d){3,6}(abc|dca)"),
    )

    def answer_with(drafter: Drafter[Any]) -> DecodingSequence:
        target = ScriptedEngine(SCRIPT, V)
        tokens = Vocabulary(V, table.eos_ids, table.token_bytes)
        decoder = Decoder(target, tokens, drafter, 4, grammars=Grammars(table))
        *_, (_, sequence, _) = decoder.run([PROMPT], [params])
        return sequence

    plain = answer_with(NoDrafter())
    assert re.fullmatch("(ab|ca?|d){3,6}(abc|dca)", plain.text)
    num_rejected = 0
    # Drafts of the target's own law without the grammar, in chains and trees, and of another law.
    for drafter in (perfect(), ScriptedDrafter(near_law, (2, 2), "top"), ScriptedDrafter(near_law)):
        drafted = answer_with(drafter)
        assert ids(drafted) == ids(plain)
        assert drafted.text == plain.text
        num_rejected += drafted.stats.drafted - drafted.stats.accepted
    assert num_rejected > 0
