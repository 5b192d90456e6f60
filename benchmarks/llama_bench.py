"""llama.cpp's own benchmark on the same file, as a round of the comparison."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneglance.errors import ParameterError


@dataclass(frozen=True)
class LlamaBench:
    """The program `llama-bench`, a model file and the number of threads.

    It says of itself what it measures: `-n` decodes one token after the other, from an empty
    context and without choosing tokens; `-p N -d C` is one batch of N tokens behind C tokens. Of
    a batch it computes the logits of the last row alone, where our passes compute those of all
    rows, as checking a draft needs.
    """

    program: Path
    model: Path
    num_threads: int

    def measure(
        self,
        plain_tokens: int,
        prefill_tokens: int,
        context: int,
        rows: Sequence[int],
        repeats: int,
    ) -> dict[str, Any]:
        """One round: plain decoding, a prompt, passes of some rows behind a context.

        Args:
            plain_tokens: to decode.
            prefill_tokens: of the prompt.
            context: behind which the passes are.
            rows: of the passes.
            repeats: how many passes of each.

        Returns:
            "plain" and "prefill" with "tokens" and "seconds"; "passes" with the seconds of
            `repeats` passes by number of rows; "context"; "build", the program's version.
        """
        speeds = self._run(["-p", prefill_tokens, "-n", plain_tokens, "-r", 1])
        batches = ",".join(map(str, rows))
        passes = self._run(["-p", batches, "-n", 0, "-d", context, "-r", repeats])
        return {
            "plain": _speed(_only(speeds, n_gen=plain_tokens)),
            "prefill": _speed(_only(speeds, n_prompt=prefill_tokens)),
            "passes": {str(count): _seconds(_only(passes, n_prompt=count)) for count in rows},
            "context": context,
            "build": f"{speeds[0]['build_number']} ({speeds[0]['build_commit']})",
        }

    def _run(self, options: Sequence[object]) -> list[dict[str, Any]]:
        command = [self.program, "-m", self.model, "-t", self.num_threads, "-o", "jsonl", *options]
        try:
            done = subprocess.run(
                [str(word) for word in command], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            raise ParameterError(
                f"--llama-bench {str(self.program)!r} cannot be run on {self.model} "
                f"({said.strip().splitlines()[-1]}); name the program llama-bench of llama.cpp."
            ) from None
        try:
            return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
        except json.JSONDecodeError:
            raise ParameterError(
                f"--llama-bench {str(self.program)!r} does not print JSON lines; name the program "
                "llama-bench of llama.cpp."
            ) from None


def _only(results: Sequence[Mapping[str, Any]], **wanted: int) -> Mapping[str, Any]:
    other = {"n_prompt": 0, "n_gen": 0} | wanted
    found = [result for result in results if all(result.get(key) == other[key] for key in other)]
    if len(found) != 1:
        raise ParameterError(
            f"--llama-bench gave {len(found)} results for {wanted}, and one is needed; use "
            "another version of llama.cpp."
        )
    return found[0]


def _seconds(result: Mapping[str, Any]) -> list[float]:
    return [nanoseconds / 1e9 for nanoseconds in result["samples_ns"]]


def _speed(result: Mapping[str, Any]) -> dict[str, float]:
    (seconds,) = _seconds(result)
    return {"tokens": result["n_prompt"] + result["n_gen"], "seconds": seconds}
