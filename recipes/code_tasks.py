"""What a coding task is: names, a signature, wordings, and the function that gives its examples.

A signature is written in a small language, `first/second(text/s: words, k: small) -> int`: names
to choose from, and for every parameter the kind of its random inputs (a key of `KINDS`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

WORDS = (
    "apple",
    "river",
    "stone",
    "cloud",
    "maple",
    "tiger",
    "orange",
    "violin",
    "garden",
    "silver",
    "planet",
    "bottle",
    "candle",
    "forest",
    "window",
    "rocket",
    "pepper",
    "island",
    "mirror",
    "castle",
    "lemon",
    "noon",
    "level",
    "banana",
    "coffee",
    "summer",
    "yellow",
    "kayak",
    "book",
    "tree",
    "bird",
    "lake",
    "moon",
    "salt",
    "wind",
    "ship",
    "rose",
    "gold",
    "iron",
    "map",
    "key",
    "ant",
    "owl",
    "fox",
)
PEOPLE = (
    "Ada",
    "Ben",
    "Chloe",
    "Dev",
    "Elena",
    "Farid",
    "Grace",
    "Hugo",
    "Iris",
    "Jonas",
    "Kira",
    "Liam",
    "Mina",
    "Noor",
)


@dataclass(frozen=True)
class Kind:
    """A kind of argument: its annotation and a maker of random values."""

    annotation: str
    make: Callable[[Random], Any]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a task: the names it may have, and its kind."""

    names: tuple[str, ...]
    kind: str


@dataclass(frozen=True)
class Task:
    """One idea for a function; the first of `docs` starts with a verb in the imperative.

    `{0}`, `{1}`, … in a wording are the parameters' names; other fields are those of `choices`,
    which `reference` takes as keywords.
    """

    names: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    returns: str
    docs: tuple[str, ...]
    reference: Callable[..., Any]
    choices: Mapping[str, Sequence[Any]]


def task(signature: str, reference: Callable[..., Any], *docs: str, **choices: Any) -> Task:
    """A task from its signature in the language above."""
    match = re.fullmatch(r"([\w/]+)\((.*)\) -> (.+)", signature)
    assert match is not None, signature
    pairs = [part.split(": ") for part in match[2].split(", ")]
    assert all(kind in KINDS for _, kind in pairs), signature
    parameters = tuple(Parameter(tuple(names.split("/")), kind) for names, kind in pairs)
    return Task(tuple(match[1].split("/")), parameters, match[3], docs, reference, choices)


def _list_of(make: Callable[[Random], Any], low: int = 3, high: int = 7) -> Callable[[Random], Any]:
    return lambda random: [make(random) for _ in range(random.randint(low, high))]


def _integer(low: int, high: int) -> Callable[[Random], Any]:
    return lambda random: random.randint(low, high)


def _text_of(letters: str, low: int, high: int) -> Callable[[Random], Any]:
    return lambda random: "".join(random.choices(letters, k=random.randint(low, high)))


def _sentence(random: Random) -> str:
    words = random.choices(WORDS, k=random.randint(3, 6))
    plain = " ".join(word.capitalize() if random.random() < 0.2 else word for word in words)
    return plain + random.choice(("", "", "", ".", "!"))


def _rows(height: int, width: int, low: int, high: int, random: Random) -> list[list[int]]:
    return [[random.randint(low, high) for _ in range(width)] for _ in range(height)]


def _square(random: Random) -> list[list[int]]:
    size = random.randint(2, 3)
    return _rows(size, size, 0, 9, random)


def _interval(random: Random) -> tuple[int, int]:
    start = random.randint(0, 15)
    return start, start + random.randint(1, 6)


def _graph(random: Random) -> dict[str, list[str]]:
    """A directed graph without cycles: edges go from a letter to later letters only."""
    nodes = "ABCDE"[: random.randint(3, 5)]
    return {
        node: [other for other in nodes[i + 1 :] if random.random() < 0.5]
        for i, node in enumerate(nodes)
    }


def _nested(random: Random, depth: int = 2) -> list[Any]:
    return [
        _nested(random, depth - 1) if depth and random.random() < 0.4 else random.randint(0, 9)
        for _ in range(random.randint(2, 3))
    ]


def _scores(random: Random) -> dict[str, int]:
    names = random.sample(PEOPLE, random.randint(2, 4))
    return {name: random.randint(1, 20) for name in names}


def _person(random: Random) -> dict[str, Any]:
    city = random.choice(("Oslo", "Lima", "Rome"))
    return {"name": random.choice(PEOPLE), "age": random.randint(15, 70), "city": city}


def _date(random: Random) -> str:
    year, month = random.randint(1990, 2030), random.randint(1, 12)
    return f"{year}-{month:02}-{random.randint(1, 28):02}"


def _clock(random: Random) -> str:
    return f"{random.randint(0, 23):02}:{random.randint(0, 59):02}"


def _expression(random: Random) -> str:
    """A sum in reverse Polish notation, so that every prefix leaves enough on the stack."""
    text = str(random.randint(1, 9))
    for _ in range(random.randint(1, 3)):
        text += f" {random.randint(1, 9)} {random.choice('+-*')}"
    return text


def _settings(random: Random) -> str:
    keys = random.sample(("host", "port", "mode", "user", "debug"), random.randint(2, 3))
    return ";".join(f"{key}={random.randint(1, 99)}" for key in keys)


KINDS: Mapping[str, Kind] = {
    "ints": Kind("list[int]", _list_of(_integer(-9, 20))),
    "nats": Kind("list[int]", _list_of(_integer(0, 20))),
    "positives": Kind("list[int]", _list_of(_integer(1, 30))),
    "few": Kind("list[int]", _list_of(_integer(1, 4), 4, 8)),
    "ordered": Kind("list[int]", lambda random: sorted(_list_of(_integer(-5, 20))(random))),
    "distinct": Kind("list[int]", lambda random: random.sample(range(1, 20), random.randint(3, 6))),
    "floats": Kind("list[float]", _list_of(lambda random: random.randint(1, 99) / 10)),
    "gaps": Kind(
        "list[int | None]",
        _list_of(lambda random: random.choice((None, random.randint(1, 9))), 4, 7),
    ),
    "bits": Kind("list[int]", _list_of(_integer(0, 1), 4, 8)),
    "flags": Kind("list[bool]", _list_of(lambda random: random.random() < 0.5, 3, 5)),
    "words": Kind("list[str]", _list_of(lambda random: random.choice(WORDS), 3, 5)),
    "letters": Kind("list[str]", _list_of(lambda random: random.choice("abcd"), 4, 8)),
    "word": Kind("str", lambda random: random.choice(WORDS)),
    "mixed": Kind("str", _text_of("abcXYZ123 -_", 5, 10)),
    "lower": Kind("str", _text_of("aabbcde", 4, 9)),
    "binary": Kind("str", _text_of("01", 4, 8)),
    "digits": Kind("str", _text_of("0123456789", 4, 8)),
    "sentence": Kind("str", _sentence),
    "small": Kind("int", _integer(1, 4)),
    "n": Kind("int", _integer(1, 12)),
    "number": Kind("int", _integer(1, 200)),
    "big": Kind("int", _integer(100, 99999)),
    "any_int": Kind("int", _integer(-20, 20)),
    "real": Kind("float", lambda random: random.randint(5, 500) / 10),
    "matrix": Kind("list[list[int]]", lambda random: _rows(random.randint(2, 3), 3, 0, 9, random)),
    "grid": Kind("list[list[int]]", lambda random: _rows(3, random.randint(3, 4), 0, 1, random)),
    "square": Kind("list[list[int]]", _square),
    "interval": Kind("tuple[int, int]", _interval),
    "intervals": Kind("list[tuple[int, int]]", _list_of(_interval, 2, 4)),
    "point": Kind("tuple[int, int]", lambda random: (random.randint(-9, 9), random.randint(-9, 9))),
    "points": Kind(
        "list[tuple[int, int]]",
        _list_of(lambda random: (random.randint(-5, 9), random.randint(-5, 9)), 3, 4),
    ),
    "scores": Kind("dict[str, int]", _scores),
    "people": Kind("list[dict[str, Any]]", _list_of(_person, 2, 3)),
    "graph": Kind("dict[str, list[str]]", _graph),
    "nested": Kind("list[Any]", _nested),
    "date": Kind("str", _date),
    "clock": Kind("str", _clock),
    "expression": Kind("str", _expression),
    "settings": Kind("str", _settings),
    "parens": Kind("str", _text_of("()", 3, 8)),
    "moves": Kind("str", _text_of("UDLR", 4, 9)),
}
