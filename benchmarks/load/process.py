"""A server in a process of its own: started, waited for, looked at from outside, and stopped."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

START_SECONDS = 300.0
STOP_SECONDS = 10.0
LOOK_SECONDS = 0.1
"""Between two looks at whether a server is ready."""


class ServerFailedError(Exception):
    """A server did not start, or failed.

    Attributes:
        reason: why, as a part of a sentence.
    """

    def __init__(self, reason: str) -> None:
        """Keeps the reason."""
        super().__init__(reason)
        self.reason = reason


@dataclass
class ServerProcess:
    """A program that serves HTTP on this machine.

    Attributes:
        command: program and arguments.
        url: where it listens.
        ready_path: answers 200 once the program is ready.
        environment: variables of the process; None: those of this one.
    """

    command: Sequence[str]
    url: str
    ready_path: str
    environment: Mapping[str, str] | None = None
    _process: subprocess.Popen[bytes] | None = None
    _log: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    @property
    def pid(self) -> int:
        """Number of the process."""
        assert self._process is not None, "it has not been started"
        return self._process.pid

    def start(self) -> None:
        """Starts the program and waits until it is ready.

        Raises:
            ServerFailedError: it ended, or was not ready in time.
            OSError: there is no such program.
        """
        environment = None if self.environment is None else dict(self.environment)
        try:
            self._process = subprocess.Popen(
                list(self.command), stdout=self._log, stderr=self._log, env=environment
            )
            self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the process, by force if it takes too long; forgets what it said."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None
        self._log.close()

    def terminate(self) -> None:
        """Asks it to end, as an operator does."""
        assert self._process is not None, "it has not been started"
        self._process.terminate()

    def wait(self, timeout_seconds: float) -> int | None:
        """The code it ended with; None if it has not ended in that time."""
        assert self._process is not None, "it has not been started"
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return None

    def failure(self, reason: str) -> ServerFailedError:
        """An error with the last line that the program has said."""
        lines = self.said().strip().splitlines()
        return ServerFailedError(f"{reason}; it said: {lines[-1]}" if lines else reason)

    def said(self) -> str:
        """All that it wrote, output and errors."""
        # Where the process writes on must not be moved, so that nothing is sought here.
        log = self._log.fileno()
        return os.pread(log, os.fstat(log).st_size, 0).decode(errors="replace")

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if process.poll() is not None:
                raise self.failure(f"it ended with code {process.returncode}")
            if time.monotonic() > deadline:
                raise self.failure(f"it has not loaded after {START_SECONDS:.0f} s")
            time.sleep(LOOK_SECONDS)

    def _is_ready(self) -> bool:
        """Servers answer 503, or not at all, while they load."""
        try:
            with urllib.request.urlopen(f"{self.url}{self.ready_path}", timeout=5) as response:
                return bool(response.status == 200)
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return False


def free_port() -> int:
    """A port of this machine at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def processor_seconds(pid: int) -> float | None:
    """Seconds of processor that a process has taken; None where the system does not tell."""
    path = Path(f"/proc/{pid}/stat")
    if not path.is_file():
        return None
    # The second field is the program's name in parentheses, which may have spaces.
    fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
