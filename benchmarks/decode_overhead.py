"""What a pass costs outside the forward: greedy and sampled, with five drafted tokens.

    python -m benchmarks.decode_overhead [--model M] [--passes N] [--drafted K] [--threads N]
        [--json FILE]

A scripted drafter proposes what plain decoding would answer, the last token of each draft
replaced by a wrong one, so that all rows but one of each pass are walked and delivered: the
dearest case. Prints, for each kind of request, the median milliseconds of a pass by phase and
what share of it is not the forward.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import oneglance
from oneglance.cli.provenance import provenance
from oneglance.config import EngineConfig, SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import DecodingSequence, Vocabulary
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.drafters.none import NoDrafter
from oneglance.engine.base import Batch, Engine, PassOutput
from oneglance.sampling.noise import SequentialNoise
from oneglance.types import Proposal

PROMPT = "Write a long story about a lighthouse keeper, his daughter and the storm of the century."
ANSWER_LENGTH = 256
CASES = {
    "greedy": SamplingParams(),
    "T=0.8 top-p=0.95 seeded": SamplingParams(temperature=0.8, top_p=0.95, seed=1),
    "T=0.8 top-p=0.95": SamplingParams(temperature=0.8, top_p=0.95),
    "T=1 seeded": SamplingParams(temperature=1.0, seed=1),
    "T=1": SamplingParams(temperature=1.0),
}
PHASES = ("forward", "propose", "rows", "accept", "loop")
"""`rows` builds the batch; `accept` includes commit, delivery and logprobs; `loop` is the rest."""


class ReplayDrafter(Drafter[list[int]]):
    """Proposes the next tokens of a known answer, the last of each draft replaced by another."""

    name = "replay"

    def __init__(self, answer: Sequence[int], vocab_size: int) -> None:
        """Takes the answer that the target will give, and the size of its vocabulary."""
        self._answer = answer
        self._vocab_size = vocab_size

    def start(self, context: DraftContext) -> list[int]:
        """Nothing of the answer is decided yet."""
        del context
        return []

    def propose(self, requests: Sequence[DraftRequest[list[int]]]) -> list[Proposal]:
        """A chain of as many tokens as are asked for."""
        return [self._next(len(each.session), each.num_draft_tokens) for each in requests]

    def observe(self, session: list[int], tokens: Sequence[int]) -> None:
        """Notes what was decided."""
        session.extend(tokens)

    def close(self, session: list[int]) -> None:
        """Forgets it."""
        session.clear()

    def _next(self, start: int, count: int) -> Proposal:
        tokens = list(self._answer[start : start + count])
        if tokens:
            tokens[-1] = (tokens[-1] + 1) % self._vocab_size
        return Proposal.chain(tokens, drafter=self.name)


class ForwardClock:
    """Stands before an engine's `forward` and notes how long each call took."""

    def __init__(self, engine: Engine) -> None:
        """Takes the place of the engine's method."""
        self.last = 0.0
        self._forward = engine.forward
        engine.forward = self  # type: ignore[method-assign]

    def __call__(self, batch: Batch) -> PassOutput:
        """Calls the engine."""
        started = perf_counter()
        output = self._forward(batch)
        self.last = perf_counter() - started
        return output


class Bench:
    """One model, measured with several kinds of request."""

    def __init__(self, model: str, num_drafted: int, num_threads: int | None) -> None:
        """Loads the model."""
        self.llm = oneglance.load(model, engine_config=EngineConfig(num_threads=num_threads))
        self._num_drafted = num_drafted
        self._clock = ForwardClock(self.llm.engine)
        self._prompt = self.llm.encode(PROMPT)
        tokenizer = self.llm.tokenizer
        self._vocabulary = Vocabulary(
            tokenizer.vocab_size, tokenizer.eos_ids, tokenizer.token_bytes
        )

    def run(self, params: SamplingParams, num_passes: int) -> dict[str, float]:
        """Median milliseconds by phase, over passes that delivered as many tokens as drafted."""
        passes: list[dict[str, float]] = []
        for choice in range(num_passes):
            passes += self._answer(params, choice)
            if len(passes) >= num_passes:
                break
        medians = {
            phase: 1e3 * statistics.median(seconds[phase] for seconds in passes)
            for phase in (*PHASES, "pass")
        }
        shares = [1 - seconds["forward"] / seconds["pass"] for seconds in passes]
        return {**medians, "share_outside": statistics.median(shares), "passes": len(passes)}

    def _answer(self, params: SamplingParams, choice: int) -> list[dict[str, float]]:
        """One answer plainly, then with its own tokens as drafts."""
        plain = self._begin(params, choice, NoDrafter())
        decoder, sequence = plain
        while sequence.ending is None:
            decoder.step([sequence])
        decoder.end(sequence)
        answer = [token.token_id for token in sequence.tokens]
        decoder, sequence = self._begin(
            params, choice, ReplayDrafter(answer, self._vocabulary.size)
        )
        passes = []
        while sequence.ending is None:
            seconds, num_delivered = self._timed_step(decoder, sequence)
            if num_delivered == self._num_drafted:
                passes.append(seconds)
        decoder.end(sequence)
        if [token.token_id for token in sequence.tokens] != answer:
            raise SystemExit("the answer with drafts differs from the plain one")
        return passes

    def _begin(
        self, params: SamplingParams, choice: int, drafter: Drafter[Any]
    ) -> tuple[Decoder, DecodingSequence]:
        decoder = Decoder(self.llm.engine, self._vocabulary, drafter, self._num_drafted)
        request = SamplingParams(
            max_tokens=ANSWER_LENGTH,
            temperature=params.temperature,
            top_p=params.top_p,
            seed=params.seed,
            choice=choice,
            ignore_eos=True,
        )
        # Repeated for the second decoding: one draw a token, whether it was drafted or not.
        noise = SequentialNoise(choice) if params.seed is None else None
        return decoder, decoder.begin(self._prompt, request, noise)

    def _timed_step(
        self, decoder: Decoder, sequence: DecodingSequence
    ) -> tuple[dict[str, float], int]:
        stats, num_before = sequence.stats, len(sequence.tokens)
        before = stats.draft_seconds, stats.verify_seconds, stats.accept_seconds
        started = perf_counter()
        decoder.step([sequence])
        total = perf_counter() - started
        after = stats.draft_seconds, stats.verify_seconds, stats.accept_seconds
        propose, verify, accept = (end - start for start, end in zip(before, after, strict=True))
        seconds = {
            "pass": total,
            "forward": self._clock.last,
            "propose": propose,
            "rows": verify - self._clock.last,
            "accept": accept,
            "loop": total - propose - verify - accept,
        }
        return seconds, len(sequence.tokens) - num_before


def main() -> None:
    """Reads the options, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--passes", type=int, default=200, help="passes to measure, at least")
    parser.add_argument("--drafted", type=int, default=5, help="draft tokens of each pass")
    parser.add_argument("--threads", type=int, help="of the forward; as many as CPUs by default")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    load_average = os.getloadavg()
    bench = Bench(options.model, options.drafted, options.threads)
    print(f"milliseconds a pass, {options.drafted} drafted tokens, {options.model}")
    print(f"{'':26}" + "".join(f"{name:>9}" for name in (*PHASES, "pass", "outside")))
    results = {}
    for name, params in CASES.items():
        results[name] = found = bench.run(params, options.passes)
        cells = "".join(f"{found[phase]:9.3f}" for phase in (*PHASES, "pass"))
        print(f"{name:26}{cells}{found['share_outside']:9.1%}", flush=True)
    if options.json is not None:
        report = {
            **provenance(shlex.join(["python", "-m", "benchmarks.decode_overhead", *sys.argv[1:]])),
            "model": options.model,
            "drafted": options.drafted,
            "engine": bench.llm.engine.info.to_dict(),
            "load_average_before": load_average,
            "cases": results,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
