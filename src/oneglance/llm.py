"""The object that users hold: load a model, generate, stream, batch."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from types import TracebackType
from typing import Any

from oneglance.checkpoints.base import Checkpoint, Tokenizer
from oneglance.completion import Completion, Piece
from oneglance.config import EngineConfig, SamplingParams
from oneglance.control.calibration import Calibration
from oneglance.control.cost import PassCosts
from oneglance.control.length import (
    DraftLengthSpec,
    check_tree_nodes,
    make_draft_length,
)
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import DecodingSequence, Vocabulary
from oneglance.decode.watch import PassWatcher
from oneglance.drafters.base import Drafter, DraftHints
from oneglance.drafters.spec import with_prediction
from oneglance.drafting import DrafterSet, read_model
from oneglance.engine.base import Engine
from oneglance.engine.factory import make_engine
from oneglance.engine.prefix import PrefixStore
from oneglance.errors import ParameterError, UnsupportedError
from oneglance.params import sampling_params
from oneglance.sampling.constraint import Grammars
from oneglance.scheduler.config import SchedulerConfig
from oneglance.scheduler.scheduler import Scheduler
from oneglance.types import ProgressCallback

DEFAULT_MODEL = "smollm2-135m"
DEFAULT_DRAFTER = "auto"

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
        drafter: str | Drafter[Any] = DEFAULT_DRAFTER,
        k: DraftLengthSpec = "auto",
        engine_config: EngineConfig = EngineConfig(),
        progress: ProgressCallback | None = None,
        tree_nodes: int | None = None,
    ) -> None:
        """Takes a checkpoint and the engine that holds its weights.

        Raises:
            OneglanceError: the drafter, `k` or `tree_nodes` cannot be used; the message says why.
        """
        make_draft_length(k)
        check_tree_nodes(tree_nodes)
        self.checkpoint = checkpoint
        self.engine = engine
        self._drafter = drafter
        self._k = k
        self._tree_nodes = tree_nodes
        self._engine_config = engine_config
        self._prefixes = PrefixStore(engine, engine_config.num_kept_prefixes)
        self._grammars = Grammars(checkpoint.tokenizer)
        self._drafters = DrafterSet(checkpoint, engine, engine_config, progress)
        self._drafters.get(drafter)

    @property
    def tokenizer(self) -> Tokenizer:
        """The target's vocabulary."""
        return self.checkpoint.tokenizer

    @property
    def drafter_name(self) -> str:
        """Name of the drafter that requests get unless they name another."""
        return self._drafters.get(self._drafter).name

    def generate(
        self,
        prompt: Prompt,
        *,
        raw: bool = False,
        params: SamplingParams | None = None,
        drafter: str | Drafter[Any] | None = None,
        k: DraftLengthSpec | None = None,
        tree_nodes: int | None = None,
        prediction: str | None = None,
        tenant: str = "",
        **sampling: Any,
    ) -> Completion:
        """Answers one prompt.

        Args:
            prompt: a text, which goes through the chat template as one user message, or a
                conversation.
            raw: continue the text as it is, without the chat template.
            params: how to sample and when to stop.
            drafter: another drafter than the loaded one, for this call; "none" is plain decoding,
                a `Drafter` is your own.
            k: draft tokens on a path, or "auto".
            tree_nodes: draft tokens per pass on all branches together, for drafters that can
                branch; None: as the model was loaded.
            prediction: what the answer will probably be; the nearer, the sooner it comes. The
                drafter is `predicted` then, with the chosen one for what the prediction lacks.
            tenant: whose request it is; see `DraftHints`.
            sampling: fields of `SamplingParams` by name, on top of `params`; and what the answer
                must look like, by one of `json_schema` (text, or read), `grammar` (Lark's
                notation), `regex` and `choices` (a list of texts), see docs/structured-output.md.

        Raises:
            OneglanceError: the request can't be served; raised before any work starts.
        """
        return self.batch(
            [prompt],
            raw=raw,
            params=params,
            drafter=drafter,
            k=k,
            tree_nodes=tree_nodes,
            prediction=prediction,
            tenant=tenant,
            **sampling,
        )[0]

    def stream(
        self,
        prompt: Prompt,
        *,
        raw: bool = False,
        params: SamplingParams | None = None,
        drafter: str | Drafter[Any] | None = None,
        k: DraftLengthSpec | None = None,
        tree_nodes: int | None = None,
        prediction: str | None = None,
        tenant: str = "",
        watcher: PassWatcher | None = None,
        **sampling: Any,
    ) -> Generator[Piece]:
        """Answers one prompt piece by piece, one for each pass; arguments as in `generate`.

        Requests that can't be served are refused by this call, not by the first piece. Closing
        the iterator cancels the answer and frees what it holds. A `watcher` is shown every pass
        before its piece comes; it changes no token.
        """
        decoder = self._decoder(drafter, k, tree_nodes, has_prediction=prediction is not None)
        request = sampling_params(params, sampling)
        tokens = self.encode(prompt, raw=raw)
        hints = self._hints(prediction, tenant)
        decoder.check(tokens, request, hints)
        return self._stream(decoder, tokens, request, hints, watcher)

    def batch(
        self,
        prompts: Sequence[Prompt],
        *,
        raw: bool = False,
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        drafter: str | Drafter[Any] | None = None,
        k: DraftLengthSpec | None = None,
        tree_nodes: int | None = None,
        prediction: str | Sequence[str] | None = None,
        tenant: str = "",
        **sampling: Any,
    ) -> list[Completion]:
        """Answers several prompts together, each exactly as it would be answered alone.

        Args:
            prompts: texts or conversations.
            raw: as in `generate`.
            params: one for all, or one for each prompt.
            drafter: as in `generate`.
            k: as in `generate`.
            tree_nodes: as in `generate`.
            prediction: one for all, or one for each prompt.
            tenant: as in `generate`.
            sampling: as in `generate`.
        """
        if isinstance(prompts, str):
            raise ParameterError("batch takes a list of prompts; for a single one use generate.")
        decoder = self._decoder(drafter, k, tree_nodes, has_prediction=prediction is not None)
        many = (
            [params] * len(prompts)
            if params is None or isinstance(params, SamplingParams)
            else params
        )
        if len(many) != len(prompts):
            raise ParameterError(
                f"batch got {len(prompts)} prompts and {len(many)} params; give one for each."
            )
        requests = [sampling_params(one, sampling) for one in many]
        predictions = (
            [prediction] * len(prompts)
            if prediction is None or isinstance(prediction, str)
            else prediction
        )
        if len(predictions) != len(prompts):
            raise ParameterError(
                f"batch got {len(prompts)} prompts and {len(predictions)} predictions; give one "
                "for each."
            )
        tokens = [self.encode(prompt, raw=raw) for prompt in prompts]
        hints = [self._hints(one, tenant) for one in predictions]
        completions: dict[int, Completion] = {}
        with closing(decoder.run(tokens, requests, hints)) as deliveries:
            for index, sequence, delivery in deliveries:
                if delivery.ending is not None:
                    completions[index] = self._completion(decoder, sequence)
        return [completions[index] for index in range(len(prompts))]

    def scheduler(self, config: SchedulerConfig = SchedulerConfig()) -> Scheduler:
        """Answers many requests at once, in a thread of its own.

        Until it is shut down, use this object for `encode` and its properties only: the engine and
        the drafters belong to that thread.

        Args:
            config: how much may run and wait at the same time.

        Raises:
            OneglanceError: the drafter cannot be made.
        """
        self._prefixes.clear()
        return Scheduler(
            lambda drafter, has_prediction: self._decoder(drafter, None, None, has_prediction),
            config,
        )

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

    @property
    def pass_costs(self) -> PassCosts:
        """What passes of the target cost here, as far as that is known."""
        return self._drafters.pass_costs

    def calibrate(self, budget_seconds: float = 4.0) -> Calibration:
        """Measures what passes and drafts cost here, and keeps it for later runs.

        Args:
            budget_seconds: about how long to measure.

        Raises:
            ParameterError: the file cannot be written.
        """
        return self._drafters.calibrate(self._drafter, budget_seconds)

    def close(self) -> None:
        """Forgets the drafters, with them the draft models' weights, and the kept prefixes.

        What a drafter keeps in a file is saved first.

        Raises:
            ParameterError: such a file cannot be written; the rest is done all the same.
        """
        try:
            self._drafters.close()
        finally:
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
        self,
        decoder: Decoder,
        tokens: list[int],
        request: SamplingParams,
        hints: DraftHints,
        watcher: PassWatcher | None,
    ) -> Generator[Piece]:
        with closing(decoder.run([tokens], [request], [hints], watcher)) as deliveries:
            for _, sequence, delivery in deliveries:
                is_last = delivery.ending is not None
                completion = self._completion(decoder, sequence) if is_last else None
                yield Piece(delivery.text, delivery.tokens, delivery.trace, completion)

    def _completion(self, decoder: Decoder, sequence: DecodingSequence) -> Completion:
        return Completion.of(sequence, decoder.drafter.name, self.engine.info)

    def _hints(self, prediction: str | None, tenant: str) -> DraftHints:
        tokens = () if prediction is None else tuple(self.tokenizer.encode(prediction))
        return DraftHints(tokens, tenant)

    def _decoder(
        self,
        drafter: str | Drafter[Any] | None,
        k: DraftLengthSpec | None,
        tree_nodes: int | None,
        has_prediction: bool,
    ) -> Decoder:
        tokenizer = self.tokenizer
        chosen = self._drafter if drafter is None else drafter
        if has_prediction and isinstance(chosen, str):
            chosen = with_prediction(chosen)
        made = self._drafters.get(chosen)
        return Decoder(
            target=self.engine,
            vocabulary=Vocabulary(tokenizer.vocab_size, tokenizer.eos_ids, tokenizer.token_bytes),
            drafter=made,
            control=self._drafters.control(made),
            k=self._k if k is None else k,
            tree_nodes=self._tree_nodes if tree_nodes is None else tree_nodes,
            engine_config=self._engine_config,
            prefixes=self._prefixes,
            grammars=self._grammars,
        )


def load(
    model: str = DEFAULT_MODEL,
    drafter: str | Drafter[Any] = DEFAULT_DRAFTER,
    k: DraftLengthSpec = "auto",
    engine_config: EngineConfig = EngineConfig(),
    progress: ProgressCallback | None = None,
    tree_nodes: int | None = None,
) -> LLM:
    """Loads a model and a drafter, fetching what is not on this machine yet.

    Args:
        model: a name of the catalog, a path (GGUF file or Hugging Face folder), or a repository
            of the Hugging Face hub.
        drafter: its name, such as "auto", "none" or "draft:MODEL" (see docs/drafters.md), or a
            `Drafter` of your own. auto takes what is on this machine and fetches nothing.
        k: draft tokens on a path, or "auto".
        engine_config: which engine, and sizes of its pages, cache and prompt chunks.
        progress: told about long work.
        tree_nodes: draft tokens per pass on all branches together; None: chains.

    Raises:
        OneglanceError: what could not be done, and the remedy.
    """
    make_draft_length(k)
    check_tree_nodes(tree_nodes)
    checkpoint = read_model(model, progress)
    engine = make_engine(checkpoint.config, checkpoint.weights, engine_config, progress)
    return LLM(checkpoint, engine, drafter, k, engine_config, progress, tree_nodes)
