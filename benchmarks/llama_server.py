"""llama.cpp's server as a subject of the drafters' benchmark: started here, asked, and stopped.

It is given the prompt as token ids, so that it reads exactly what our model reads whatever its
chat template would do, and it is asked greedily and without its prompt cache. What a setting may be
called differs between its versions; its `--help` tells.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.load.process import ServerFailedError, ServerProcess, free_port
from oneglance.bench.http_json import NoAnswerError, post_json
from oneglance.bench.subject import PEER, Answer, Question
from oneglance.errors import ParameterError

ANSWER_SECONDS = 1800.0
DRAFT_LENGTHS = (4, 16)
"""Draft tokens of its draft model, each a setting of its own: machines differ in the best."""
NGRAM_TYPES = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")


@dataclass(frozen=True)
class LlamaProgram:
    """The program `llama-server`, the model files and the number of threads.

    Attributes:
        path: of the program.
        model: GGUF file of the target.
        draft: GGUF file of the draft model; None: settings that need one are left out.
        num_threads: of its passes.
        context: tokens of a prompt and its answer, at most.
        slots: how many it answers at the same time.
    """

    path: Path
    model: Path
    draft: Path | None
    num_threads: int
    context: int
    slots: int = 1

    def version(self) -> str:
        """What it says of itself, such as "5142 (80f19b4)"."""
        found = re.search(r"version: *(.+)", self._say("--version"))
        return found[1].strip() if found else "unknown"

    def settings(self) -> dict[str, tuple[str, ...]]:
        """Its ways of speculating, by name, as options; "plain" is none."""
        said = self._say("--help")
        settings: dict[str, tuple[str, ...]] = {"plain": ()}
        if self.draft is not None:
            # Newer versions have other names, and keep a word on the older ones in their help.
            most = "--spec-draft-n-max" if "--spec-draft-n-max" in said else "--draft-max"
            kind = ("--spec-type", "draft-simple") if "draft-simple" in said else ()
            for length in DRAFT_LENGTHS:
                settings[f"draft {length}"] = ("-md", str(self.draft), *kind, most, str(length))
        types = re.search(r"--spec-type\s+(\S+)", said)
        known = re.split(r"[,|\[\]]", types[1]) if types else []
        for name in NGRAM_TYPES:
            if name in known:
                settings[name] = ("--spec-type", name)
        return settings

    def command(self, options: Sequence[str], port: int) -> list[str]:
        """The whole command line: for this machine only."""
        size = ["-np", self.slots, "-c", self.slots * self.context]
        fixed = ["--host", "127.0.0.1", "--port", port, *size]
        words = [self.path, "-m", self.model, "-t", self.num_threads, *fixed, *options]
        return [str(word) for word in words]

    def refusal(self, reason: str) -> ParameterError:
        """An error that names the program."""
        return ParameterError(
            f"--llama-server {self.path.name!r} cannot be measured ({reason}); name the program "
            "llama-server of llama.cpp and GGUF files that it can read."
        )

    def _say(self, option: str) -> str:
        try:
            done = subprocess.run(
                [str(self.path), option], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise self.refusal(str(error)) from None
        return done.stdout + done.stderr


@dataclass
class LlamaServer:
    """A running server with one setting. A context manager: it is stopped when that ends.

    Attributes:
        program: what is run.
        setting: name of the way in which it speculates.
        options: what that is called on its command line.
        is_greedy_only: always.
    """

    program: LlamaProgram
    setting: str
    options: tuple[str, ...]
    is_greedy_only: bool = True
    _process: ServerProcess | None = None

    @property
    def label(self) -> str:
        """Its name in results."""
        return f"{PEER} {self.setting}"

    @property
    def process(self) -> ServerProcess:
        """The running server."""
        assert self._process is not None, "it is not running"
        return self._process

    def __enter__(self) -> LlamaServer:
        """Starts it and waits until it has loaded.

        Raises:
            ParameterError: it did not start.
        """
        port = free_port()
        process = ServerProcess(
            self.program.command(self.options, port), f"http://127.0.0.1:{port}", "/health"
        )
        try:
            process.start()
        except OSError as error:
            raise self.program.refusal(str(error)) from None
        except ServerFailedError as error:
            raise self._refusal(error) from None
        self._process = process
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops the process."""
        if self._process is not None:
            self._process.stop()
        self._process = None

    def answer(self, question: Question) -> Answer:
        """One greedy answer, with the seconds that the server itself took.

        Raises:
            ParameterError: the server failed.
        """
        assert question.params.is_greedy, "its random choices are not ours"
        body = {
            "prompt": list(question.token_ids),
            "n_predict": question.params.max_tokens,
            "temperature": 0,
            "cache_prompt": False,
        }
        try:
            answer = post_json(f"{self.process.url}/completion", body, ANSWER_SECONDS)
            return _read_answer(answer["timings"])
        except NoAnswerError as error:
            raise self.failure(error.reason) from None
        except (KeyError, TypeError):
            raise self.failure("its answer has no timings") from None

    def failure(self, reason: str) -> ParameterError:
        """An error that names program and setting, and the last line that the program has said."""
        return self._refusal(self.process.failure(reason))

    def _refusal(self, error: ServerFailedError) -> ParameterError:
        return self.program.refusal(f"setting {self.setting}: {error.reason}")


def parse_settings(
    texts: Sequence[str] | None, program: LlamaProgram
) -> dict[str, tuple[str, ...]]:
    """Settings as asked for: NAME of one that the program has, or NAME=OPTIONS; None: all it has.

    Raises:
        ParameterError: a name without options that the program does not have.
    """
    own = program.settings()
    if texts is None:
        return own
    chosen: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, options = text.partition("=")
        if not equals and name not in own:
            raise program.refusal(f"it has no setting {name!r}, only {', '.join(own)}")
        chosen[name] = tuple(shlex.split(options)) if equals else own[name]
    return chosen


def _read_answer(timings: Mapping[str, Any]) -> Answer:
    prompt_seconds = timings["prompt_ms"] / 1000
    return Answer(
        token_ids=None,
        tokens=timings["predicted_n"],
        seconds=prompt_seconds + timings["predicted_ms"] / 1000,
        prefill_seconds=prompt_seconds,
        drafted=timings.get("draft_n", 0),
        accepted=timings.get("draft_n_accepted", 0),
    )
