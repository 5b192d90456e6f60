"""API keys: where they come from, and whose a request is."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oneglance.errors import ParameterError

_NAME = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class Client:
    """Who sends a request.

    Attributes:
        name: of the key, for the log; "" without keys.
        is_isolated: shares no cached prefix and no remembered answer with others, since the time
            that an answer takes could tell of them.
        priority: of its requests; larger comes first.
    """

    name: str = ""
    is_isolated: bool = False
    priority: int = 0

    @property
    def tenant(self) -> str:
        """Whose caches its requests use; "" is what all share."""
        return self.name if self.is_isolated else ""


ANYONE = Client()
"""Who sends requests to a server without keys."""


class KeyRing:
    """The keys of a server. Keeps hashes, never the keys."""

    def __init__(self, clients: Sequence[tuple[Client, str]] = ()) -> None:
        """Takes each client with its key.

        Raises:
            ParameterError: two clients have one name, or one key.
        """
        for what in (
            [client.name for client, _ in clients],
            [key for _, key in clients],
        ):
            if len(set(what)) < len(what):
                raise ParameterError(
                    "Two API keys have one name, or two names one key; give each client its own."
                )
        self._clients = [(client, _digest(key)) for client, key in clients]

    def __len__(self) -> int:
        return len(self._clients)

    def find(self, key: str) -> Client | None:
        """Whose key this is; None: nobody's. Takes as long for a wrong key as for a right one."""
        presented = _digest(key)
        found: Client | None = None
        for client, digest in self._clients:
            if hmac.compare_digest(presented, digest):
                found = client
        return found


def parse_keys(text: str, origin: str) -> list[tuple[Client, str]]:
    """Reads keys, one a line or separated by commas: NAME KEY [isolated] [priority=N].

    Args:
        text: what a file or a variable holds; a line that begins with # is a comment.
        origin: where it comes from, for messages, which never show a key.

    Raises:
        ParameterError: an entry is not of that form.
    """
    found: list[tuple[Client, str]] = []
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    entries = [entry.split() for line in lines for entry in line.split(",")]
    for number, words in enumerate(filter(None, entries), start=1):
        if len(words) < 2 or not _NAME.fullmatch(words[0]):
            raise ParameterError(
                f"Entry {number} of {origin} is no API key; write NAME KEY, with isolated or "
                "priority=N behind it if need be."
            )
        name, key, *options = words
        found.append((_client(name, options, f"Entry {number} of {origin}"), key))
    return found


def read_keys(file: Path | None, variable: str | None, variable_name: str) -> KeyRing:
    """The keys of a file and of a variable together.

    Args:
        file: as `parse_keys` reads it; None: there is none.
        variable: its value; None: it is not set.
        variable_name: for messages.

    Raises:
        ParameterError: the file cannot be read or has no key, or an entry is malformed.
    """
    clients: list[tuple[Client, str]] = []
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(
                f"The keys of {str(file)!r} cannot be read ({error}); name a text file with a "
                "line NAME KEY for each client."
            ) from None
        clients += parse_keys(text, repr(str(file)))
        if not clients:
            raise ParameterError(
                f"{str(file)!r} has no keys, so that nobody could send a request; add a line "
                "NAME KEY, or leave the file out to let anyone."
            )
    if variable is not None:
        clients += parse_keys(variable, variable_name)
    return KeyRing(clients)


def _client(name: str, options: Sequence[str], origin: str) -> Client:
    is_isolated, priority = False, 0
    for option in options:
        word, _, value = option.partition("=")
        if option == "isolated":
            is_isolated = True
        elif word == "priority" and re.fullmatch(r"-?[0-9]{1,6}", value):
            priority = int(value)
        else:
            raise ParameterError(
                f"{origin} has the unknown option {option!r}; there are isolated and priority=N."
            )
    return Client(name, is_isolated, priority)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
