"""The object that users hold: load a model, generate, stream, batch."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from types import TracebackType
from typing import Any

from oneglance.checkpoints import load_checkpoint
from oneglance.checkpoints.base import Checkpoint, Tokenizer
from oneglance.checkpoints.catalog import resolve
from oneglance.completion import Completion, Piece
from oneglance.config import EngineConfig, SamplingParams
from oneglance.control.length import DraftLengthSpec, make_draft_length
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import DecodingSequence, Vocabulary
from oneglance.drafters.base import Drafter
from oneglance.drafters.factory import DrafterSetup, make_drafter
from oneglance.engine.base import Engine
from oneglance.engine.factory import make_engine
from oneglance.engine.prefix import PrefixStore
from oneglance.errors import ParameterError, UnsupportedError
from oneglance.types import ProgressCallback

DEFAULT_MODEL = "smollm2-135m"
DEFAULT_DRAFTER = "ngram"

Prompt = str | Sequence[Mapping[str, str]]
"""A text, or a conversation as messages with "role" and "content"."""


class LLM:
    """A loaded model with a drafter. Use `load` to make one.

    Not safe for several threads. Several streams may be open at once; each has its own cache.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        engine: Engine,
        drafter: str = DEFAULT_DRAFTER,
        k: DraftLengthSpec = "auto",
        engine_config: EngineConfig = EngineConfig(),
        progress: ProgressCallback | None = None,
    ) -> None:
        """Takes a checkpoint and the engine that holds its weights.

        Raises:
            OneglanceError: the drafter or `k` cannot be used; the message says why.
        """
        make_draft_length(k)
        self.checkpoint = checkpoint
        self.engine = engine
        self.drafter_name = drafter
        self._k = k
        self._engine_config = engine_config
        self._progress = progress
        self._prefixes = PrefixStore(engine, engine_config.num_kept_prefixes)
        self._drafters: dict[str, Drafter[Any]] = {}
        self._drafter(drafter)

    @property
    def tokenizer(self) -> Tokenizer:
        """The target's vocabulary."""
        return self.checkpoint.tokenizer

    def generate(
        self,
        prompt: Prompt,
        *,
        raw: bool = False,
        params: SamplingParams | None = None,
        drafter: str | None = None,
        k: DraftLengthSpec | None = None,
        **sampling: Any,
    ) -> Completion:
        """Answers one prompt.

        Args:
            prompt: a text, which goes through the chat template as one user message, or a
                conversation.
            raw: continue the text as it is, without the chat template.
            params: how to sample and when to stop.
            drafter: another drafter than the loaded one, for this call; "none" is plain decoding.
            k: draft tokens per pass, or "auto".
            sampling: fields of `SamplingParams` by name, on top of `params`.

        Raises:
            OneglanceError: the request can't be served; raised before any work starts.
        """
        return self.batch([prompt], raw=raw, params=params, drafter=drafter, k=k, **sampling)[0]

    def stream(
        self,
        prompt: Prompt,
        *,
        raw: bool = False,
        params: SamplingParams | None = None,
        drafter: str | None = None,
        k: DraftLengthSpec | None = None,
        **sampling: Any,
    ) -> Generator[Piece]:
        """Answers one prompt piece by piece; arguments as in `generate`.

        Requests that can't be served are refused by this call, not by the first piece. Closing
        the iterator cancels the answer and frees what it holds.
        """
        decoder = self._decoder(drafter, k)
        request = _sampling_params(params, sampling)
        tokens = self.encode(prompt, raw=raw)
        decoder.check(tokens, request)
        return self._stream(decoder, tokens, request)

    def batch(
        self,
        prompts: Sequence[Prompt],
        *,
        raw: bool = False,
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        drafter: str | None = None,
        k: DraftLengthSpec | None = None,
        **sampling: Any,
    ) -> list[Completion]:
        """Answers several prompts together, each exactly as it would be answered alone.

        Args:
            prompts: texts or conversations.
            raw: as in `generate`.
            params: one for all, or one for each prompt.
            drafter: as in `generate`.
            k: as in `generate`.
            sampling: fields of `SamplingParams` by name, on top of `params`.
        """
        if isinstance(prompts, str):
            raise ParameterError("batch takes a list of prompts; for a single one use generate.")
        decoder = self._decoder(drafter, k)
        many = (
            [params] * len(prompts)
            if params is None or isinstance(params, SamplingParams)
            else params
        )
        if len(many) != len(prompts):
            raise ParameterError(
                f"batch got {len(prompts)} prompts and {len(many)} params; give one for each."
            )
        requests = [_sampling_params(one, sampling) for one in many]
        tokens = [self.encode(prompt, raw=raw) for prompt in prompts]
        completions: dict[int, Completion] = {}
        with closing(decoder.run(tokens, requests)) as deliveries:
            for index, sequence, delivery in deliveries:
                if delivery.ending is not None:
                    completions[index] = self._completion(decoder, sequence)
        return [completions[index] for index in range(len(prompts))]

    def encode(self, prompt: Prompt, raw: bool = False) -> list[int]:
        """Token ids of a prompt as the model gets them.

        Raises:
            UnsupportedError: a conversation for a model that has no chat template.
            ParameterError: the template refuses the messages, `raw` with a conversation, or a list
                of texts.
        """
        template = self.checkpoint.chat_template
        if isinstance(prompt, str):
            if raw or template is None:
                return self.tokenizer.encode(prompt, add_bos=self.tokenizer.adds_bos)
            prompt = [{"role": "user", "content": prompt}]
        elif raw:
            raise ParameterError("raw = True goes with a text, not with a list of messages.")
        elif not all(isinstance(message, Mapping) for message in prompt):
            raise ParameterError(
                "A prompt is one text or a list of messages, mappings with role and content; "
                "for several texts use batch."
            )
        if template is None:
            raise UnsupportedError(
                f"{self.checkpoint.name!r} has no chat template; give the prompt as one text."
            )
        return template.encode(self.tokenizer, prompt)

    def close(self) -> None:
        """Forgets the drafters, with them the draft models' weights, and the kept prefixes."""
        self._drafters.clear()
        self._prefixes.clear()

    def __enter__(self) -> LLM:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _stream(
        self, decoder: Decoder, tokens: list[int], request: SamplingParams
    ) -> Generator[Piece]:
        with closing(decoder.run([tokens], [request])) as deliveries:
            for _, sequence, delivery in deliveries:
                is_last = delivery.ending is not None
                completion = self._completion(decoder, sequence) if is_last else None
                yield Piece(delivery.text, delivery.tokens, delivery.trace, completion)

    def _completion(self, decoder: Decoder, sequence: DecodingSequence) -> Completion:
        return Completion.of(sequence, decoder.drafter.name, self.engine.info)

    def _decoder(self, drafter: str | None, k: DraftLengthSpec | None) -> Decoder:
        tokenizer = self.tokenizer
        return Decoder(
            target=self.engine,
            vocabulary=Vocabulary(tokenizer.vocab_size, tokenizer.eos_ids, tokenizer.token_bytes),
            drafter=self._drafter(self.drafter_name if drafter is None else drafter),
            k=self._k if k is None else k,
            engine_config=self._engine_config,
            prefixes=self._prefixes,
        )

    def _drafter(self, spec: str) -> Drafter[Any]:
        """The drafter of that name; made at its first use, then kept."""
        if spec not in self._drafters:
            setup = DrafterSetup(
                target=self.checkpoint,
                load_checkpoint=lambda model: _read(model, self._progress),
                make_engine=lambda checkpoint: _make_engine(
                    checkpoint, self._engine_config, self._progress
                ),
                engine_config=self._engine_config,
            )
            self._drafters[spec] = make_drafter(spec, setup)
        return self._drafters[spec]


def load(
    model: str = DEFAULT_MODEL,
    drafter: str = DEFAULT_DRAFTER,
    k: DraftLengthSpec = "auto",
    engine_config: EngineConfig = EngineConfig(),
    progress: ProgressCallback | None = None,
) -> LLM:
    """Loads a model and a drafter, fetching what is not on this machine yet.

    Args:
        model: a name of the catalog, a path (GGUF file or Hugging Face folder), or a repository
            of the Hugging Face hub.
        drafter: "none", "ngram" or "draft:MODEL".
        k: draft tokens per pass, or "auto".
        engine_config: which engine, and sizes of its pages, cache and prompt chunks.
        progress: told about long work.

    Raises:
        OneglanceError: what could not be done, and the remedy.
    """
    make_draft_length(k)
    checkpoint = _read(model, progress)
    engine = _make_engine(checkpoint, engine_config, progress)
    return LLM(checkpoint, engine, drafter, k, engine_config, progress)


def _read(model: str, progress: ProgressCallback | None) -> Checkpoint:
    return load_checkpoint(resolve(model, progress), name=model, progress=progress)


def _make_engine(
    checkpoint: Checkpoint, engine_config: EngineConfig, progress: ProgressCallback | None
) -> Engine:
    return make_engine(checkpoint.config, checkpoint.weights, engine_config, progress)


def _sampling_params(params: SamplingParams | None, sampling: dict[str, Any]) -> SamplingParams:
    base = SamplingParams() if params is None else params
    unknown = sorted(set(sampling) - set(SamplingParams.__dataclass_fields__))
    if unknown:
        raise ParameterError(
            f"Unknown parameter {unknown[0]!r}; "
            f"known ones: {', '.join(SamplingParams.__dataclass_fields__)}."
        )
    return replace(base, **sampling) if sampling else base
