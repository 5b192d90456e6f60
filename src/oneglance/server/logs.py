"""The log: one JSON object a line, without what users say unless it is asked for."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

LOGGER = logging.getLogger("oneglance.server")


class _JsonLines(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line: time, level, event, and whatever belongs to the event."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def start_logging() -> None:
    """Sends the log of this process's server, and uvicorn's complaints, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    for name, level in (("oneglance", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False


def log(event: str, level: int = logging.INFO, **facts: Any) -> None:
    """Writes an event with its facts; those that are None are left out."""
    known = {name: value for name, value in facts.items() if value is not None}
    LOGGER.log(level, event, extra={"facts": known})


def log_fault(event: str, error: BaseException, **facts: Any) -> None:
    """Writes a fault of ours with its traceback."""
    LOGGER.error(event, exc_info=(type(error), error, error.__traceback__), extra={"facts": facts})
