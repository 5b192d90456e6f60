"""`medusa:PATH` on the default model: heads that fit draft, others are refused with a figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oneglance import LLM, SamplingParams, load
from oneglance.config import EngineConfig
from oneglance.control.length import Control
from oneglance.control.part import PartLength
from oneglance.drafters import factory
from oneglance.drafters.factory import make_drafter
from oneglance.drafters.first_token import TEXTS
from oneglance.drafters.medusa_measured import ReadText, measured, read_text
from oneglance.drafters.setup import DrafterSetup
from oneglance.engine.base import TopTokens
from oneglance.errors import CheckpointError, ParameterError, UnsupportedError
from oneglance.heads.medusa import MedusaConfig
from oneglance.heads.medusa_files import write_medusa
from oneglance.heads.shipped import size_of
from oneglance.testing import ScriptedEngine, random_script
from oneglance.types import Float32Array
from tests.drafters.test_medusa import LinearHeads
from tests.heads.medusa_heads import fitted_heads, random_heads


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with load(drafter="none") as llm:
        yield llm


def setup_of(llm: LLM) -> DrafterSetup:
    return DrafterSetup(
        target=llm.checkpoint,
        target_engine=llm.engine,
        load_checkpoint=lambda _: llm.checkpoint,
        make_engine=lambda _: llm.engine,
        engine_config=EngineConfig(),
        local_drafts=lambda _: [],
        make_length=lambda _part, _num_prompt: PartLength(Control()),
    )


@pytest.fixture(scope="module")
def folder(llm: LLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Heads that know the built-in texts by heart."""
    folder = tmp_path_factory.mktemp("heads") / "fitted"
    texts = [llm.tokenizer.encode(text) for text in TEXTS]
    weights = fitted_heads(llm.engine, texts)
    arrays = {}
    for head, ((block,), matrix) in enumerate(zip(weights.blocks, weights.outputs, strict=True)):
        arrays[f"{head}.0.linear.weight"] = block.weight.dequantize()
        arrays[f"{head}.0.linear.bias"] = block.bias.dequantize()
        arrays[f"{head}.1.weight"] = matrix.dequantize()
    write_medusa(folder, weights.config, arrays, weights.token_ids, {}, "Q4_1")
    return folder


def write_random(folder: Path, hidden_size: int, vocab_size: int) -> Path:
    arrays = random_heads(hidden_size)
    ids = np.arange(100, 1100)
    config = MedusaConfig(hidden_size, vocab_size, 3, 1, len(ids), has_own_outputs=False)
    write_medusa(folder, config, arrays, ids, {})
    return folder


def test_heads_that_fit_draft(llm: LLM, folder: Path) -> None:
    prompt = llm.tokenizer.decode(llm.tokenizer.encode(TEXTS[1])[:40])
    params = SamplingParams(max_tokens=24)
    plain = llm.generate(prompt, raw=True, params=params)
    for nodes in (None, 6):
        drafted = llm.generate(
            prompt, raw=True, params=params, drafter=f"medusa:{folder}", k=3, tree_nodes=nodes
        )
        assert drafted.text == plain.text
        assert drafted.stats.accepted > 0
        assert {token.drafter for token in drafted.tokens} == {None, "medusa:fitted"}


def test_they_can_be_a_part_of_a_hybrid(llm: LLM, folder: Path) -> None:
    params = SamplingParams(max_tokens=16, temperature=0.7, seed=3)
    plain = llm.generate(TEXTS[0], raw=True, params=params)
    drafted = llm.generate(TEXTS[0], raw=True, params=params, drafter=f"ngram+medusa:{folder}")
    assert drafted.text == plain.text


def test_random_heads_are_refused_with_their_figure(llm: LLM, tmp_path: Path) -> None:
    config = llm.checkpoint.config
    folder = write_random(tmp_path / "random", config.hidden_size, config.vocab_size)
    with pytest.raises(UnsupportedError, match=r"medusa:random does not match .* [0-9]% of its"):
        make_drafter(f"medusa:{folder}", setup_of(llm))


def test_heads_of_another_width_are_refused(llm: LLM, tmp_path: Path) -> None:
    folder = write_random(tmp_path / "narrow", 64, llm.checkpoint.config.vocab_size)
    with pytest.raises(CheckpointError, match="do not fit the target"):
        make_drafter(f"medusa:{folder}", setup_of(llm))


def test_a_folder_that_is_not_there_is_refused(llm: LLM, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has none of medusa_lm_head"):
        make_drafter(f"medusa:{tmp_path / 'nothing'}", setup_of(llm))


def test_without_a_folder_the_shipped_heads_are_meant(llm: LLM, folder: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"No Medusa heads are shipped for 'smollm2-135m'"):
        make_drafter("medusa", setup_of(llm))
    asked: list[str] = []

    def shipped(kind: str, target: object) -> Path:
        assert target is llm.checkpoint
        asked.append(kind)
        return folder

    drafter = make_drafter("medusa", replace(setup_of(llm), shipped_heads=shipped))
    assert drafter.name == "medusa"
    assert asked == ["medusa"]


def test_auto_uses_shipped_heads_that_match(llm: LLM, folder: Path, tmp_path: Path) -> None:
    def shipped(kind: str, target: object) -> Path | None:
        assert target is llm.checkpoint
        return places.get(kind)

    setup = replace(setup_of(llm), shipped_heads=shipped)
    places = {"medusa": folder}
    assert make_drafter("auto", setup).name == "suffix+medusa"
    config = llm.checkpoint.config
    places = {"medusa": write_random(tmp_path / "random", config.hidden_size, config.vocab_size)}
    assert make_drafter("auto", setup).name == "suffix"
    assert make_drafter("auto", setup_of(llm)).name == "suffix"  # its head is no cheap one


def test_auto_takes_no_head_that_is_dear_beside_its_target(
    llm: LLM, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shipped(kind: str, target: object) -> Path | None:
        del target
        return folder if kind == "medusa" else None

    setup = replace(setup_of(llm), shipped_heads=shipped)
    share = size_of(folder) / llm.engine.pass_bytes
    for most, name in ((1.01 * share, "suffix+medusa"), (0.99 * share, "suffix")):
        monkeypatch.setattr(factory, "_CHEAP_HEAD", most)
        assert make_drafter("auto", setup).name == name


def test_another_engine_is_refused(llm: LLM, folder: Path) -> None:
    engine = ScriptedEngine(random_script(3, 0), 3)
    with pytest.raises(UnsupportedError, match="runs on the native engine"):
        make_drafter(f"medusa:{folder}", replace(setup_of(llm), target_engine=engine))


def test_they_cannot_draft_for_a_draft_model(llm: LLM) -> None:
    with pytest.raises(ParameterError, match="medusa cannot draft for a draft model"):
        make_drafter("cascade:medusa,draft:x", setup_of(llm))


class ListedHeads(LinearHeads):
    """Heads whose guesses are listed: for each state, of each head, best first."""

    def __init__(self, guesses: list[list[list[int]]]) -> None:
        super().__init__(np.zeros((len(guesses[0]), 2, 2)))
        self._guesses = guesses

    def top(self, features: Float32Array, num_heads: int, num_top: int) -> list[TopTokens]:
        every = super().top(features, num_heads, num_top)
        shares = np.log(np.array([[0.75, 0.25]] * num_heads, np.float32))
        assert len(every) == len(self._guesses)
        return [TopTokens(np.array(each), shares) for each in self._guesses]


def test_guesses_count_as_far_as_the_text_is_what_the_target_says() -> None:
    tokens, said = np.array([4, 5, 6, 7, 8]), np.array([5, 6, 9, 8, 3])
    text = ReadText(tokens, said, np.zeros((5, 2), np.float32))
    assert [text.num_agreed(start) for start in range(5)] == [2, 1, 0, 1, 0]
    # After token 0 head 0 should say what follows 5, which is 6, and head 1 what follows 6: 9.
    guesses = [[[6, 0], [0, 9]], [[9, 0], [1, 1]], [[1, 2]] * 2, [[0, 1], [1, 1]], [[1, 2]] * 2]
    known = measured(ListedHeads(guesses), [text])
    assert known.counts.tolist() == [3, 1]
    assert known.hits[0, :2].tolist() == [2, 0]
    assert known.hits[1, :2].tolist() == [0, 1]
    assert known.said[0, :2].tolist() == pytest.approx([2.25, 0.75])


def test_a_text_is_read_in_one_pass_and_cut_to_the_context(llm: LLM) -> None:
    layer, size = llm.checkpoint.config.num_layers, llm.tokenizer.vocab_size
    tokens = llm.tokenizer.encode(TEXTS[0])
    text = read_text(llm.engine, tokens, layer, size)
    assert text.tokens.tolist() == tokens
    assert text.states.shape == (len(tokens), llm.checkpoint.config.hidden_size)
    shares = [text.num_agreed(start) > 0 for start in range(len(tokens))]
    assert sum(shares) > len(tokens) / 3, "the target knows such texts"
