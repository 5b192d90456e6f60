"""`oneglance serve` in a process of its own, and what its metrics tell."""

from __future__ import annotations

import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.load.process import ServerProcess
from oneglance.environment import SERVE_PREFIX, SERVER_KEYS_VARIABLE

METRICS_SECONDS = 30.0
HOST = "127.0.0.1"
SERVED_NAME = "subject"
"""How requests call the model, whatever its file is called."""

Settings = Mapping[str, object]


@dataclass(frozen=True)
class Gauges:
    """What a server's metrics tell.

    Attributes:
        values: by the sample's name and the values of its labels, with spaces between.
    """

    values: Mapping[str, float]

    @classmethod
    def of(cls, page: str) -> Gauges:
        """Reads the text format of Prometheus."""
        return cls(
            {
                " ".join([sample.name, *sample.labels.values()]): sample.value
                for family in text_string_to_metric_families(page)
                for sample in family.samples
            }
        )

    def total(self, name: str) -> float:
        """Of a sample over all its labels; 0 for what has not been counted yet."""
        return sum(value for key, value in self.values.items() if key.partition(" ")[0] == name)

    @property
    def num_in_progress(self) -> int:
        """Requests that wait or run."""
        return int(
            self.total("oneglance_waiting_requests") + self.total("oneglance_running_requests")
        )

    @property
    def pages_used(self) -> int:
        """Pages of the key-value cache in use, those of kept prefixes included."""
        return int(self.values["oneglance_kv_pages used"])

    @property
    def cached_tokens(self) -> int:
        """Tokens that are kept for prompts that begin alike."""
        return int(self.total("oneglance_cached_tokens"))


@dataclass
class OwnServer:
    """Our server. A context manager: it is stopped when that ends.

    Attributes:
        model: name or path.
        port: where it listens.
        settings: of `oneglance serve`, by name.
        keys: API keys, each of a client of its own that shares no cached prefix with others; with
            none anyone is let in.
    """

    model: str
    port: int
    settings: Settings = field(default_factory=dict)
    keys: Sequence[str] = ()
    _process: ServerProcess | None = None

    @property
    def url(self) -> str:
        """Where it listens, without /v1."""
        return f"http://{HOST}:{self.port}"

    @property
    def process(self) -> ServerProcess:
        """The running server."""
        assert self._process is not None, "it is not running"
        return self._process

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the process: this one's, less what they say of serving, and its settings."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(SERVE_PREFIX) and name != SERVER_KEYS_VARIABLE
        }
        own = {
            "model": self.model,
            "served_names": SERVED_NAME,
            "host": HOST,
            "port": self.port,
            **self.settings,
        }
        kept |= {f"{SERVE_PREFIX}{name.upper()}": str(value) for name, value in own.items()}
        if self.keys:
            lines = [f"key{number} {key} isolated" for number, key in enumerate(self.keys)]
            kept[SERVER_KEYS_VARIABLE] = "\n".join(lines)
        return kept

    def __enter__(self) -> OwnServer:
        """Starts it and waits until it is ready.

        Raises:
            ServerFailedError: it did not start.
        """
        command = [sys.executable, "-m", "oneglance", "serve"]
        self._process = ServerProcess(command, self.url, "/ready", self.environment)
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops the process."""
        if self._process is not None:
            self._process.stop()
        self._process = None

    def gauges(self) -> Gauges:
        """Its metrics now.

        Raises:
            ServerFailedError: it does not tell them.
        """
        headers = {"Authorization": f"Bearer {self.keys[0]}"} if self.keys else {}
        request = urllib.request.Request(f"{self.url}/metrics", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=METRICS_SECONDS) as response:
                return Gauges.of(response.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                raise self.process.failure(f"/metrics is refused: {error}") from None
        except (OSError, HTTPException) as error:
            raise self.process.failure(f"/metrics is not there: {error}") from None

    def wait_until_idle(self, timeout_seconds: float) -> bool:
        """Waits until nothing waits or runs; returns whether that came about."""
        deadline = time.monotonic() + timeout_seconds
        while self.gauges().num_in_progress:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True
