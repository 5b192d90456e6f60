"""Bodies that no client should send: valid ones with changes, and what was never one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from benchmarks.load.own_server import SERVED_NAME
from benchmarks.load.questions import CHAT, COMPLETION

NUMBERS: Sequence[Any] = (
    *(0, -1, 1, 2, 0.5, -0.0, 1e-320, 1e308, -1e308),
    *(2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**400),
)
TEXTS: Sequence[str] = (
    *("", " ", "\x00", "\ud800", "\udfff\ud800", "\u202e\u2066", "é" * 3, "🏳️\u200d🌈", "\ufeff"),
    *("\uffff", "null", "NaN", "a" * 5000, "<|im_end|>", "../../etc/passwd", "'; --", "\r\n\r\n"),
)
"""Lone surrogates among them: JSON can write them, UTF-8 cannot."""
VALUES: Sequence[Any] = (None, True, False, [], {}, [[]], [None], {"": {}}, *NUMBERS, *TEXTS)
VALID = "valid"
"""The kind of bodies that must be answered."""
DEEP = 2000
"""Levels of nesting that no parser should follow by recursion."""


@dataclass(frozen=True)
class Fuzzed:
    """A body and where it is sent."""

    kind: str
    path: str
    content: bytes


def fuzz_bodies(count: int, seed: int) -> Iterator[Fuzzed]:
    """So many bodies of all kinds, the same ones for the same seed."""
    random_source = random.Random(seed)
    kinds = list(MAKERS)
    for index in range(count):
        kind = kinds[index % len(kinds)]
        path = random_source.choice((CHAT, COMPLETION))
        yield Fuzzed(kind, path, MAKERS[kind](valid_body(path, random_source), random_source))


def valid_body(path: str, random_source: random.Random) -> dict[str, Any]:
    """A request with many fields, which the server answers with a token or two."""
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
    if path == COMPLETION:
        asked = {"prompt": random_source.choice(("Hi", ["Hi", "Ho"], [12, 13], [[12], [13, 14]]))}
    optional: dict[str, Any] = {
        "max_tokens": random_source.randint(1, 2),
        "temperature": random_source.choice((0, 0.7, 2)),
        "top_p": 0.9,
        "top_k": 5,
        "min_p": 0.1,
        "n": random_source.randint(1, 2),
        "seed": random_source.choice((0, -5, 2**62)),
        "stop": random_source.choice(("x", ["x", "yy"])),
        "stream": random_source.random() < 0.5,
        "logit_bias": {"17": -100, "20": 3.5},
        "presence_penalty": -2,
        "frequency_penalty": 0.5,
        "repetition_penalty": 1.2,
        "min_tokens": 1,
        "logprobs": True if path == CHAT else 2,
        "user": "someone",
        "prediction": {"type": "content", "content": "Hello there"},
        "speculation": random_source.choice(
            ({"off": True}, {"drafter": "ngram", "k": 3}, {"report": "tokens", "tree": 4})
        ),
    }
    if path == CHAT:
        optional["response_format"] = random_source.choice(
            ({"type": "text"}, {"type": "json_object"})
        )
    names = random_source.sample(list(optional), random_source.randint(2, 6))
    chosen = {name: optional[name] for name in optional if name in names}
    # What would have no effect, or cannot be had together, is refused.
    if chosen.get("speculation") == {"off": True}:
        chosen.pop("prediction", None)
    if chosen.get("response_format") == {"type": "json_object"}:
        chosen.pop("min_tokens", None)
    return {"model": SERVED_NAME, **asked, **chosen}


def broken_body(body: Mapping[str, Any], random_source: random.Random) -> bytes:
    """A body that can't be served in any case."""
    changed = dict(body)
    how = random_source.randrange(6)
    if how == 0:
        return json.dumps(changed).encode()[: random_source.randrange(2, 30)]
    if how == 1:
        return random_source.randbytes(40) + b"\xff"
    if how == 2:
        changed["model"] = random_source.choice(("another", 5, None, ["x"]))
    elif how == 3:
        changed["max_tokens"] = random_source.choice((-1, 0, "8", 1.5, [], 10**30))
    elif how == 4:
        changed["temperature"] = random_source.choice((-1, 3, "hot", {}))
    else:
        changed["no_such_field"] = random_source.choice(VALUES)
    return json.dumps(changed).encode()


def _with_value(body: dict[str, Any], random_source: random.Random) -> bytes:
    """One value, however deep, is another."""
    holder, key = random_source.choice(list(_places(body)))
    holder[key] = deepcopy(random_source.choice(VALUES))
    return _written(body)


def _with_changes(body: dict[str, Any], random_source: random.Random) -> bytes:
    """Several fields are missing, have other names, or other values."""
    for _ in range(random_source.randint(1, 4)):
        places = list(_places(body))
        if not places:
            break
        holder, key = random_source.choice(places)
        how = random_source.randrange(3)
        if how == 0:
            del holder[key]
        elif how == 1 and isinstance(holder, dict):
            holder[random_source.choice((*TEXTS, f"{key}s", str(key).upper()))] = holder.pop(key)
        else:
            holder[key] = _random_value(random_source, 2)
    return _written(body)


def _with_broken_text(body: dict[str, Any], random_source: random.Random) -> bytes:
    """The bytes are cut, doubled, or changed here and there."""
    content = bytearray(_written(body))
    how = random_source.randrange(4)
    if how == 0:
        return bytes(content[: random_source.randrange(len(content))])
    if how == 1:
        return bytes(content * 2)
    for _ in range(random_source.randint(1, 5)):
        content[random_source.randrange(len(content))] = random_source.randrange(256)
    return bytes(content)


def _with_repeated_field(body: dict[str, Any], random_source: random.Random) -> bytes:
    """A field comes twice."""
    name = random_source.choice(list(body))
    again = json.dumps({name: random_source.choice(VALUES)})[1:-1]
    return _written(body)[:-1] + b", " + again.encode() + b"}"


def _nested(body: dict[str, Any], random_source: random.Random) -> bytes:
    """Something is nested deeper than a parser likes."""
    opening, closing = random_source.choice((("[", "]"), ('{"a":', "}")))
    depth = random_source.choice((50, 200, DEEP))
    name = random_source.choice([*body, "tools", "response_format", "messages"])
    rest = _written({key: value for key, value in body.items() if key != name})[:-1]
    deep = opening * depth + "0" + closing * depth
    return rest + f", {json.dumps(name)}: {deep}}}".encode()


def _never_a_body(_: dict[str, Any], random_source: random.Random) -> bytes:
    """Any JSON, or no JSON at all."""
    if random_source.random() < 0.25:
        return random_source.randbytes(random_source.randrange(200))
    return _written(_random_value(random_source, 4))


MAKERS: Mapping[str, Callable[[dict[str, Any], random.Random], bytes]] = {
    VALID: lambda body, _: _written(body),
    "another value": _with_value,
    "several changes": _with_changes,
    "broken text": _with_broken_text,
    "repeated field": _with_repeated_field,
    "deep nesting": _nested,
    "never a body": _never_a_body,
}
"""Kinds of bodies, which come in turn."""


def _random_value(random_source: random.Random, depth: int) -> Any:
    how = random_source.randrange(4 if depth else 2)
    if how < 2:
        return deepcopy(random_source.choice(VALUES))
    size = random_source.randrange(4)
    values = [_random_value(random_source, depth - 1) for _ in range(size)]
    if how == 2:
        return values
    names = [random_source.choice((*TEXTS, "model", "role", "content", "type")) for _ in values]
    return dict(zip(names, values, strict=True))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every holder of a value with the key or index by which it holds it."""
    keys = value if isinstance(value, dict) else range(len(value)) if _is_list(value) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _written(value: Any) -> bytes:
    """JSON with escapes, so that lone surrogates can be written."""
    return json.dumps(value).encode()
