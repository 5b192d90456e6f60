"""Runs the command line as a real process: with pipes, or on a pseudo-terminal."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from types import TracebackType

from oneglance.cli import main

COMMAND = (sys.executable, "-m", "oneglance")
TIMEOUT_SECONDS = 120.0
CTRL_C, CTRL_D = "\x03", "\x04"


def run(
    *arguments: str,
    stdin: str | bytes = b"",
    environment: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, with pipes for its three streams.

    Progress of loading is taken out of `stderr`.
    """
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [*COMMAND, *arguments],
        input=data,
        capture_output=True,
        env={**os.environ, **(environment or {})},
        timeout=timeout,
        check=False,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), without_progress(done.stderr.decode())
    )


def run_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in this process: as `run`, without its second of start-up."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(arguments))
    texts = []
    for stream in (out, err):
        stream.flush()
        stream.seek(0)
        texts.append(stream.read())
    return subprocess.CompletedProcess(arguments, code, texts[0], without_progress(texts[1]))


def without_progress(errors: str) -> str:
    """What is on stderr besides the progress of loading, which a busy machine prints."""
    lines = errors.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("load weights:"))


class Terminal:
    """A command on a pseudo-terminal of its own; what it writes is kept in `screen`."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self._master, terminal = pty.openpty()
        base = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        self._process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=_take_terminal,
            env={**base, "TERM": "xterm", "COLUMNS": "200", **(environment or {})},
        )
        os.close(terminal)
        self.screen = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        os.close(self._master)

    def type(self, text: str) -> None:
        """Presses keys; a newline is Enter."""
        os.write(self._master, text.replace("\n", "\r").encode())

    def expect(self, text: str) -> str:
        """Waits until `text` appears after what was expected before; returns what came till then.

        Raises:
            AssertionError: it does not appear in time, or the process ends without it.
        """
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while text not in self.screen:
            assert self._read(deadline), f"{text!r} did not appear in {self.screen!r}"
        before, _, self.screen = self.screen.partition(text)
        return before

    def wait(self, timeout: float = TIMEOUT_SECONDS) -> int:
        """Reads to the end and returns the exit code."""
        deadline = time.monotonic() + timeout
        while self._read(deadline):
            pass
        return self._process.wait(max(0.0, deadline - time.monotonic()) + 1.0)

    def leave(self, key: str) -> int:
        """Presses a key at the prompt until the process ends; returns the exit code.

        readline shows its prompt a moment before it listens, and a key in that moment can be
        lost, so that a person would press it again.
        """
        for _ in range(12):
            self.type(key)
            with suppress(subprocess.TimeoutExpired):
                return self.wait(timeout=10)
        raise AssertionError(f"{key!r} did not end the process; it shows {self.screen!r}")

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        try:
            data = os.read(self._master, 65536) if ready else b""
        except OSError:  # the other end is closed
            data = b""
        self.screen += data.decode("utf-8", "replace")
        return bool(data)


def _take_terminal() -> None:
    # Opening a terminal makes it the controlling one of a session that has none, so that Ctrl-C
    # reaches the process as a signal.
    os.close(os.open(os.ttyname(0), os.O_RDWR))
