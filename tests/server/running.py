"""A real server on a free port of this machine, in a thread of the test's process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from oneglance.llm import LLM
from oneglance.server.keys import KeyRing
from oneglance.server.run import DrainingServer, make_server
from oneglance.server.service import Service
from oneglance.server.settings import ServerSettings

TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Running:
    """A server that runs.

    Attributes:
        url: of its root.
        service: what it serves.
        server: to tell it to end.
    """

    url: str
    service: Service
    server: DrainingServer

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").partition(":")
        return host, int(port)

    @property
    def num_running(self) -> int:
        """Answers that the scheduler works at or holds back."""
        stats = self.service.scheduler.stats()
        return stats.num_waiting + stats.num_reading + stats.num_decoding


@contextmanager
def serving(
    llm: LLM, settings: ServerSettings | None = None, keys: KeyRing | None = None
) -> Iterator[Running]:
    """Serves a model as long as the context lasts."""
    settings = ServerSettings() if settings is None else settings
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, llm.scheduler(settings.scheduler_config()) as scheduler:
        service = Service.of(llm, scheduler, settings, KeyRing() if keys is None else keys)
        server = make_server(service)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        wait_until(lambda: server.started)
        try:
            yield Running(f"http://127.0.0.1:{listener.getsockname()[1]}", service, server)
        finally:
            server.should_exit = True
            thread.join(TIMEOUT_SECONDS)
            assert not thread.is_alive(), "the server did not end"
            service.close()


def wait_until(condition: object, seconds: float = TIMEOUT_SECONDS) -> None:
    """Waits for a condition to come true.

    Raises:
        AssertionError: it does not, within so many seconds.
    """
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.005)
