"""What is recorded is what happened, and recording it changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.config import SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.drafters.none import NoDrafter
from oneglance.sampling.noise import SequentialNoise
from oneglance.testing import ScriptedDrafter, ScriptedEngine
from oneglance.types import ROOT, Float32Array, Float64Array
from tests.show.letters import PROMPT, SCRIPT, VOCABULARY, Letters, V, flat_law, recorded

GREEDY = SamplingParams(max_tokens=20)
SAMPLED = SamplingParams(max_tokens=20, temperature=0.7, top_k=4)
SEEDED = SamplingParams(max_tokens=20, temperature=0.7, top_k=4, seed=5)
DRAFTERS = {
    "chain": ScriptedDrafter(flat_law),
    "tree": ScriptedDrafter(flat_law, branches=(2, 1)),
    "replaced": ScriptedDrafter(flat_law, branches=(2, 1), kind="replaced"),
    "top": ScriptedDrafter(flat_law, branches=(3,), kind="top"),
}


def noise_of(params: SamplingParams) -> SequentialNoise | None:
    return SequentialNoise(11) if params.seed is None else None


@pytest.mark.parametrize("params", [GREEDY, SAMPLED, SEEDED], ids=["greedy", "sampled", "seeded"])
@pytest.mark.parametrize("name", DRAFTERS)
def test_watching_changes_no_token(name: str, params: SamplingParams) -> None:
    watched, _ = recorded(DRAFTERS[name], params, noise_of(params))
    decoder = Decoder(ScriptedEngine(SCRIPT, V), VOCABULARY, DRAFTERS[name], k=3)
    alone = decoder.begin(PROMPT, params, noise_of(params))
    while alone.ending is None:
        decoder.step([alone])
    assert watched.tokens == alone.tokens
    assert watched.trace == alone.trace


def softmax(logits: Float32Array | Float64Array) -> Float64Array:
    exponents = np.exp(logits.astype(np.float64) - logits.max())
    return np.asarray(exponents / exponents.sum())


def warped(logits: Float32Array) -> Float64Array:
    """Temperature 0.7 and top-k 4, written down anew."""
    scaled = logits.astype(np.float64) / 0.7
    scaled[np.argsort(-scaled)[4:]] = -np.inf
    return softmax(scaled)


@pytest.mark.parametrize("name", DRAFTERS)
def test_probabilities_are_those_of_the_script(name: str) -> None:
    """Each at its own place of the tree; the warped ones only on the walk."""
    sequence, passes = recorded(DRAFTERS[name], SAMPLED, SequentialNoise(11))
    prefix = list(PROMPT)
    num_law_probs = 0
    for item in passes:
        paths: dict[int, list[int]] = {ROOT: []}
        for index, node in enumerate(item.nodes):
            paths[index] = [*paths[node.parent], node.token]
            before = SCRIPT((*prefix, *paths[node.parent]))
            assert node.target_prob == pytest.approx(softmax(before)[node.token], abs=1e-6)
            assert node.depth == len(paths[index])
            is_walked = node.parent == ROOT or node.parent in item.accepted
            assert (node.law_prob is not None) == is_walked
            if node.law_prob is not None:
                num_law_probs += 1
                assert node.law_prob == pytest.approx(warped(before)[node.token], abs=1e-6)
            if name == "top":
                assert node.draft_prob is None
            else:
                assert node.draft_prob == pytest.approx(flat_law(())[node.token])
            after = softmax(SCRIPT((*prefix, *paths[index])))
            best = [each.token for each in node.considered]
            assert best == list(np.argsort(-after)[:5])
            assert [each.prob for each in node.considered] == pytest.approx(after[best], abs=1e-6)
        assert item.context == len(prefix)
        taken = [item.nodes[node].token for node in item.accepted]
        if item.own is not None:
            before = SCRIPT((*prefix, *taken))
            assert item.own.target_prob == pytest.approx(softmax(before)[item.own.token], abs=1e-6)
            assert item.own.law_prob == pytest.approx(warped(before)[item.own.token], abs=1e-6)
            taken.append(item.own.token)
        prefix += taken
    assert tuple(prefix[len(PROMPT) :]) == tuple(token.token_id for token in sequence.tokens)
    assert num_law_probs > 10


def test_fates_tell_what_became_of_each_token() -> None:
    _, passes = recorded(DRAFTERS["chain"], SEEDED)
    seen = set()
    for item in passes:
        num_kept = len(item.accepted)
        fates = [node.fate for node in item.nodes]
        assert fates[:num_kept] == ["kept"] * num_kept
        if item.own is None:
            assert set(fates[num_kept:]) <= {"unused"}
        elif num_kept < len(fates):
            assert fates[num_kept:] == ["wrong", *["behind"] * (len(fates) - num_kept - 1)]
            assert item.first_wrong == num_kept
            assert item.own.kind == "recovered"
        else:
            assert item.first_wrong is None
        seen |= set(fates)
    assert {"kept", "wrong", "behind"} <= seen


def test_a_greedy_request_has_no_warped_probabilities() -> None:
    _, passes = recorded(DRAFTERS["chain"], GREEDY)
    assert all(node.law_prob is None for item in passes for node in item.nodes)
    assert all(item.own is None or item.own.law_prob is None for item in passes)


def test_without_a_draft_there_is_the_targets_token() -> None:
    _, passes = recorded(NoDrafter(), GREEDY)
    assert len(passes) == 20
    assert all(not item.nodes and item.own and item.own.kind == "plain" for item in passes)
    assert all(len(item.considered) == 5 for item in passes)


def test_what_was_asked_and_made_is_kept() -> None:
    _, passes = recorded(DRAFTERS["chain"], GREEDY, k=3)
    assert {item.num_asked for item in passes[:-3]} == {3}
    assert passes[-1].num_asked < 3, "near the end there is room for less"
    assert all(item.num_made == len(item.nodes) for item in passes)


def test_seconds_are_those_of_the_sequence() -> None:
    sequence, passes = recorded(DRAFTERS["chain"], GREEDY)
    stats = sequence.stats
    for phase, total in (
        ("draft", stats.draft_seconds),
        ("verify", stats.verify_seconds),
        ("accept", stats.accept_seconds),
    ):
        assert sum(getattr(item.seconds, phase) for item in passes) == pytest.approx(total)


def test_a_character_of_several_tokens_is_whole_once() -> None:
    """Every token is a byte of a character of two: text comes with the second of each."""
    tokenizer = Letters({token: b"\xc3" if token % 2 else b"\xa9" for token in range(V)})
    sequence, passes = recorded(DRAFTERS["chain"], SEEDED, tokenizer=tokenizer)
    delivered = [token.token_id for token in sequence.tokens]
    texts = []
    for item in passes:
        texts += [item.nodes[node].text for node in item.accepted]
        texts += [] if item.own is None else [item.own.text]
        assert all(node.shown for node in item.nodes)
    whole = tokenizer.decode(delivered)
    is_cut = tokenizer.token_bytes(delivered[-1]) == b"\xc3"
    assert "".join(texts) == (whole[:-1] if is_cut else whole)
    assert "é" in whole


def test_control_tokens_have_a_name_and_no_text() -> None:
    tokenizer = Letters(dict.fromkeys(range(V), b""))
    _, passes = recorded(DRAFTERS["chain"], GREEDY, tokenizer=tokenizer)
    for item in passes:
        for node in item.nodes:
            assert (node.text, node.shown) == ("", f"<|{node.token}|>")
