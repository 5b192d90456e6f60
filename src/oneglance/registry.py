"""A table of named factories, so that a new part is one file and one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from oneglance.errors import ParameterError

T = TypeVar("T")


class Registry(Generic[T]):
    """Maps names to values of one kind; unknown names are refused with the list of known ones."""

    def __init__(self, kind: str) -> None:
        """Creates an empty table; `kind` is the word used in messages, for example "drafter"."""
        self._kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str, value: T) -> T:
        """Adds an entry and returns it; a name can be taken only once."""
        if name in self._entries:
            raise ValueError(f"{self._kind} {name!r} is registered twice")
        self._entries[name] = value
        return value

    def get(self, name: str) -> T:
        """Returns the entry of that name.

        Raises:
            ParameterError: there is none; the message lists the names that exist.
        """
        if name not in self._entries:
            known = ", ".join(sorted(self._entries))
            raise ParameterError(f"Unknown {self._kind} {name!r}; choose one of: {known}.")
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))
