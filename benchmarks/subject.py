"""The model that is measured: loaded once, with text to feed it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.corpus import cut_windows, language_reference
from oneglance.checkpoints import load_checkpoint
from oneglance.checkpoints.base import Checkpoint
from oneglance.checkpoints.catalog import resolve
from oneglance.config import EngineConfig
from oneglance.engine.base import SequenceId
from oneglance.engine.native.engine import NativeEngine
from oneglance.engine.prefill import prefill
from oneglance.environment import read_environment
from oneglance.llm import LLM


@dataclass(frozen=True)
class Subject:
    """A loaded model.

    Attributes:
        path: its file.
        checkpoint: as it was read.
        engine: holds its weights.
        llm: answers with that engine, and keeps no prompt.
        engine_config: how the engine was made.
    """

    path: Path
    checkpoint: Checkpoint
    engine: NativeEngine
    llm: LLM
    engine_config: EngineConfig

    def text_tokens(self, count: int) -> tuple[int, ...]:
        """The first tokens of the text that the benchmarks share."""
        text = language_reference().text
        return cut_windows(text, self.checkpoint.tokenizer, count, 1)[0]

    def open_with(self, tokens: tuple[int, ...]) -> SequenceId:
        """A new sequence with these tokens committed."""
        sequence = self.engine.open()
        prefill(self.engine, sequence, tokens, self.engine_config.prefill_chunk)
        return sequence

    def kv_bytes(self, context: int) -> int:
        """What a pass reads of the cache: keys and values of the context, in all layers."""
        config = self.checkpoint.config
        item_bytes = 2 if self.engine_config.kv_dtype == "f16" else 4
        width = config.num_kv_heads * config.head_dim
        return 2 * config.num_layers * width * context * item_bytes


def load_subject(model: str, num_threads: int | None) -> Subject:
    """Loads a model on the native engine.

    Args:
        model: a name of the catalog, or a path.
        num_threads: None: as many as this process has processors.

    Raises:
        OneglanceError: the model is unknown, cannot be fetched, read or run.
    """
    path = resolve(model)
    engine_config = EngineConfig(kind="native", num_threads=num_threads, kept_prefixes=0)
    checkpoint = load_checkpoint(path, model)
    engine = load_engine(checkpoint, engine_config)
    llm = LLM(checkpoint, engine, "none", engine_config=engine_config)
    return Subject(path, checkpoint, engine, llm, engine_config)


def load_engine(checkpoint: Checkpoint, engine_config: EngineConfig) -> NativeEngine:
    """Packs the weights for the kernels that the environment asks for, or else the best ones."""
    isa = read_environment().isa
    return NativeEngine(checkpoint.config, checkpoint.weights, engine_config, isa=isa)
