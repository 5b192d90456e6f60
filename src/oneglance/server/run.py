"""Runs a service until it is told to end, and ends it in good order."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from time import monotonic
from types import FrameType

import uvicorn

from oneglance.errors import ParameterError
from oneglance.llm import LLM
from oneglance.server.app import make_app
from oneglance.server.keys import KeyRing
from oneglance.server.logs import log
from oneglance.server.service import Service
from oneglance.server.settings import ServerSettings

_TELLING_SECONDS = 5.0
"""How long clients whose answers were cut short may take to be told so."""


class DrainingServer(uvicorn.Server):
    """A server that, told to end, refuses what is new and lets what is under way come to its end.

    SIGTERM and Ctrl-C begin that; a second one, or the end of `drain_seconds`, cuts it short. The
    port stays open meanwhile, so that who comes too late is told so instead of finding nothing.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        """Takes what is served, and how."""
        super().__init__(config)
        self._service = service
        self._deadline: float | None = None
        self._ending: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Begins to end, or ends at once if that has begun already."""
        if self._deadline is None:
            self.drain(signal.Signals(sig).name)
        else:
            self.should_exit = self.force_exit = True

    def drain(self, reason: str) -> None:
        """Begins to end; may be called from another thread."""
        self._service.traffic.is_draining = True
        self._deadline = monotonic() + self._service.settings.drain_seconds
        log("draining", reason=reason, open_requests=self._service.traffic.num_open)

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second; says whether to stop."""
        if self._deadline is not None and not self.should_exit:
            num_open, late = self._service.traffic.num_open, monotonic() - self._deadline
            if late > 0 and num_open and self._ending is None:
                log("drain ended before its requests", open_requests=num_open)
                # They are told so, as the scheduler ends them.
                self._ending = asyncio.create_task(
                    asyncio.to_thread(self._service.scheduler.shutdown)
                )
            self.force_exit = late > _TELLING_SECONDS
            self.should_exit = num_open == 0 or self.force_exit
        return await super().on_tick(counter)


def make_server(service: Service) -> DrainingServer:
    """A server for a service, ready to run."""
    settings = service.settings
    config = uvicorn.Config(
        make_app(service),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
    )
    return DrainingServer(config, service)


def serve_until_told(
    llm: LLM, settings: ServerSettings, keys: KeyRing, listener: socket.socket
) -> None:
    """Serves a model until SIGTERM or Ctrl-C has come and what was under way has ended."""
    with llm.scheduler(settings.scheduler_config()) as scheduler:
        service = Service.of(llm, scheduler, settings, keys)
        host, port = listener.getsockname()[:2]
        if not len(keys) and not settings.is_local:
            log("no keys are set: whoever reaches this address is answered", logging.WARNING)
        log(
            "serving",
            url=f"http://{f'[{host}]' if ':' in host else host}:{port}/v1",
            models=settings.names,
            drafter=llm.drafter_name,
            engine=llm.engine.info.to_dict(),
            keys=len(keys),
        )
        make_server(service).run(sockets=[listener])
        service.close()
    log("ended")


def listen(settings: ServerSettings) -> socket.socket:
    """Takes the port, best before the model is loaded: that it is taken is told at once.

    Raises:
        ParameterError: the address cannot be listened at.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise ParameterError(
            f"{settings.host}:{settings.port} cannot be listened at ({error.strerror or error}); "
            "choose another --port or --host."
        ) from None
