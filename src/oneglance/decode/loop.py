"""From prompts to finished answers: begin, step until all have ended, release everything."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

from oneglance.config import EngineConfig, SamplingParams
from oneglance.constraints import Constraint
from oneglance.control.length import (
    MAX_BRANCHES,
    MAX_LENGTH,
    Control,
    DraftLength,
    DraftLengthSpec,
    FixedLength,
    check_tree_nodes,
    make_draft_length,
)
from oneglance.decode.sequence import DecodingSequence, Delivery, Vocabulary
from oneglance.decode.step import step
from oneglance.decode.watch import PassWatcher
from oneglance.drafters.base import DraftContext, Drafter, DraftHints
from oneglance.engine.base import Engine, SequenceId
from oneglance.engine.prefill import prefill
from oneglance.engine.prefix import PrefixStore
from oneglance.errors import CapacityError, ParameterError, UnsupportedError
from oneglance.sampling.constraint import Grammars
from oneglance.sampling.noise import Noise, noise_for


@dataclass(frozen=True)
class Decoder:
    """A target with its vocabulary and a drafter: what is needed to answer prompts.

    Attributes:
        target: the model whose law the answers follow.
        vocabulary: its tokens.
        drafter: guesses.
        k: draft tokens on a path, or "auto".
        tree_nodes: draft tokens per pass on all branches together; None: drafters that could
            branch draft a chain.
        engine_config: `prefill_chunk` is read.
        grammars: compiles constraints for the vocabulary; None: no request can have one.
        prefixes: where the target's cache of ended answers is kept; None: nowhere.
        control: what was learned about this target and this drafter.
    """

    target: Engine
    vocabulary: Vocabulary
    drafter: Drafter[Any]
    k: DraftLengthSpec = "auto"
    tree_nodes: int | None = None
    engine_config: EngineConfig = EngineConfig()
    prefixes: PrefixStore | None = None
    grammars: Grammars | None = None
    control: Control = field(default_factory=Control)

    def check(
        self, prompt: Sequence[int], params: SamplingParams, hints: DraftHints = DraftHints()
    ) -> None:
        """Refuses a request that can't be served, before any work starts (contract C4).

        Args:
            prompt: token ids.
            params: the request's law and limits.
            hints: for the drafter.

        Raises:
            CapacityError: the prompt leaves no room in the context.
            ParameterError: the prompt is empty or holds unknown ids, `params` names tokens that
                do not exist, `k` or `tree_nodes` cannot be used, the constraint cannot be
                enforced, or the drafter cannot serve the request.
            UnsupportedError: constraints cannot be enforced here at all.
        """
        context_length = self.target.config.context_length
        if not prompt:
            raise ParameterError("The prompt has no tokens; give at least one.")
        if len(prompt) >= context_length:
            raise CapacityError(
                f"The prompt has {len(prompt)} tokens and the model's context is {context_length}; "
                f"shorten the prompt to {context_length - 1} tokens or fewer."
            )
        for token in prompt:
            if not 0 <= token < self.vocabulary.size:
                raise ParameterError(
                    f"The prompt contains token id {token}; "
                    f"ids must be below {self.vocabulary.size}, the vocabulary size."
                )
        params.check_vocabulary(self.vocabulary.size)
        make_draft_length(self.k)
        check_tree_nodes(self.tree_nodes)
        self.drafter.check(hints)
        if self.grammars is not None:
            self.grammars.check(params.constraint)
        elif isinstance(params.constraint, Constraint):
            raise UnsupportedError(
                f"{params.constraint.name} cannot be used with a decoder without grammars; make "
                "it with some."
            )

    def begin(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        noise: Noise | None = None,
        hints: DraftHints = DraftHints(),
        watcher: PassWatcher | None = None,
    ) -> DecodingSequence:
        """Opens a sequence and feeds its prompt, all but the last token: the first pass's root.

        Args:
            prompt: token ids; `check` has accepted them.
            params: the request's law and limits.
            noise: where random choices come from, for tests; None: as the seed says, or fresh.
            hints: for the drafter.
            watcher: is shown every pass.
        """
        if self.prefixes is None:
            handle = self.target.open()
        else:
            handle = self.prefixes.open(prompt, hints.tenant)
        try:
            sequence = self.open(handle, prompt, params, noise, hints)
            sequence.watcher = watcher
            try:
                self._prefill(sequence)
            except BaseException:
                self.drafter.close(sequence.session)
                raise
        except BaseException:
            self.target.close(handle)
            raise
        return sequence

    def open(
        self,
        handle: SequenceId,
        prompt: Sequence[int],
        params: SamplingParams,
        noise: Noise | None = None,
        hints: DraftHints = DraftHints(),
        max_positions: int | None = None,
    ) -> DecodingSequence:
        """An answer to a prompt of which nothing is read yet but what `handle` holds.

        Args:
            handle: of the target's engine; holds a beginning of the prompt without its last token,
                perhaps an empty one. Where the drafter must see more of it, it is cut.
            prompt: as for `begin`.
            params: as for `begin`.
            noise: as for `begin`.
            hints: as for `begin`.
            max_positions: of prompt and answer; None: the model's context.
        """
        context = self.target.config.context_length
        limit = context if max_positions is None else min(context, max_positions)
        room = limit - len(prompt)
        sequence = DecodingSequence(
            handle=handle,
            drafter=self.drafter,
            control=self.control,
            prompt=tuple(prompt),
            params=self._bound(params),
            noise=noise_for(params) if noise is None else noise,
            vocabulary=self.vocabulary,
            max_new_tokens=room if params.max_tokens is None else min(room, params.max_tokens),
            draft_length=self._draft_length(len(prompt)),
            num_tree_nodes=self.tree_nodes,
            hints=hints,
        )
        self._start_drafter(sequence)
        return sequence

    def suspend(self, sequence: DecodingSequence) -> None:
        """Releases what an answer in progress holds; `resume` goes on with it.

        What was decided stays decided, and the randomness is where it was: how often and when an
        answer is suspended changes no token of it.
        """
        try:
            self.drafter.close(sequence.session)
        finally:
            self.target.close(sequence.handle)

    def resume(self, sequence: DecodingSequence, handle: SequenceId) -> None:
        """Goes on with a suspended answer; as after `open`, it has to be read.

        Args:
            sequence: was suspended.
            handle: of the target's engine; holds a beginning of prompt and answer without the last
                token, perhaps an empty one.
        """
        sequence.handle = handle
        self._start_drafter(sequence)

    def step(self, sequences: Sequence[DecodingSequence]) -> list[Delivery]:
        """One pass over these sequences; see `decode/step.py`.

        Raises:
            Exception: a sequence cannot go on; the others have gained their tokens all the same.
        """
        outcomes, _ = step(self.target, sequences)
        deliveries = []
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
            deliveries.append(outcome)
        return deliveries

    def run(
        self,
        prompts: Sequence[Sequence[int]],
        params: Sequence[SamplingParams],
        hints: Sequence[DraftHints] | None = None,
        watcher: PassWatcher | None = None,
    ) -> Generator[tuple[int, DecodingSequence, Delivery]]:
        """Answers several prompts together; yields each pass's deliveries as they come.

        Whatever ends the iteration (the last token, an error, the caller closing it), the cache
        and the drafter are left as they were found.

        Args:
            prompts: token ids of each.
            params: for each prompt.
            hints: for each prompt; None: there are none.
            watcher: is shown every pass of a single prompt.

        Yields:
            Index of the prompt, its sequence, and what the pass delivered.
        """
        told = [DraftHints()] * len(prompts) if hints is None else hints
        assert watcher is None or len(prompts) == 1, "a watcher looks at one request"
        for prompt, request, hint in zip(prompts, params, told, strict=True):
            self.check(prompt, request, hint)
        open_sequences: dict[int, DecodingSequence] = {}
        try:
            for index, (prompt, request) in enumerate(zip(prompts, params, strict=True)):
                open_sequences[index] = self.begin(
                    prompt, request, hints=told[index], watcher=watcher
                )
            while open_sequences:
                indices = list(open_sequences)
                deliveries = self.step(list(open_sequences.values()))
                for index, delivery in zip(indices, deliveries, strict=True):
                    sequence = open_sequences[index]
                    if delivery.ending is not None:
                        self.end(open_sequences.pop(index))
                    yield index, sequence, delivery
        finally:
            with ExitStack() as endings:  # if one fails, the others are ended all the same
                for sequence in open_sequences.values():
                    endings.callback(self.end, sequence)

    def end(self, sequence: DecodingSequence, group: str | None = None) -> None:
        """Releases what a sequence holds in the target's cache and in the drafter.

        The cache of an answer that came to its end may be kept for the next prompt; what was
        interrupted, perhaps within a pass, is dropped.

        Args:
            sequence: an answer, ended or not.
            group: whose prompts may begin with what is kept; None: the request's tenant's.
        """
        if group is None:
            group = sequence.hints.tenant
        try:
            self.drafter.close(sequence.session)
        finally:
            if self.prefixes is None or sequence.ending is None:
                self.target.close(sequence.handle)
            else:
                self.prefixes.keep(sequence.handle, sequence.history.tokens(), group)

    def _prefill(self, sequence: DecodingSequence) -> None:
        """Feeds the prompt but for its last token, and shows the drafter what it wants to see."""
        started = perf_counter()
        handle, drafter, layers = sequence.handle, self.drafter, self.drafter.hidden_layers
        prefill(
            self.target,
            handle,
            sequence.unread(self.target.length(handle)),
            self.engine_config.prefill_chunk,
            hidden_layers=layers,
            see_hidden=partial(drafter.see_hidden, sequence.session) if layers else None,
        )
        sequence.stats.prefill_seconds = perf_counter() - started

    def _start_drafter(self, sequence: DecodingSequence) -> None:
        """Begins a session with what was decided so far, and unreads what it has to see."""
        drafter, history = self.drafter, sequence.history
        sequence.session = drafter.start(
            DraftContext(
                prompt=history.prompt,
                params=sequence.params,
                noise=sequence.noise,
                eos_ids=sequence.eos_ids,
                hints=sequence.hints,
                sequence=sequence.handle,
            )
        )
        try:
            if history.num_output:
                drafter.observe(sequence.session, history.output)
            if drafter.hidden_layers:  # a kept prefix has no hidden states
                num_seen = drafter.first_unseen(sequence.session)
                if num_seen < self.target.length(sequence.handle):
                    self.target.truncate(sequence.handle, num_seen)
        except BaseException:
            drafter.close(sequence.session)
            raise

    def _bound(self, params: SamplingParams) -> SamplingParams:
        """The parameters with a constraint of the request's own, if there is one."""
        if self.grammars is None or params.constraint is None:
            return params
        return replace(params, constraint=self.grammars.mask(params.constraint))

    def _draft_length(self, num_prompt: int) -> DraftLength:
        if self.k == "auto" and self.drafter.chooses_length:
            return FixedLength(MAX_LENGTH, num_prompt, MAX_BRANCHES)
        return make_draft_length(self.k, self.control, num_prompt)
