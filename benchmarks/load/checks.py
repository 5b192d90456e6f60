"""What must hold of the answers and the state of a server; each check returns what is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.load.questions import ExpectedAnswer

MEMORY_GROWTH = 0.02
"""Part that the memory in use may grow by after the warm-up."""
SHOWN = 80
"""Characters of a text in a finding."""


@dataclass(frozen=True)
class Assembled:
    """What the events of a stream, or a whole answer, come to.

    Attributes:
        text: all of it.
        token_ids: of the events that tell them; None: none does.
        finish_reason: None: the answer has not ended.
        usage: prompt and completion tokens; None: not told.
    """

    text: str
    token_ids: tuple[int, ...] | None
    finish_reason: str | None
    usage: tuple[int, int] | None


def assemble(events: Sequence[Mapping[str, Any]]) -> Assembled:
    """Puts a stream together, or takes a whole answer, which is like a stream of one event.

    Raises:
        KeyError, TypeError: an event is of another shape than OpenAI's.
    """
    texts: list[str] = []
    ids: list[int] | None = None
    reason, usage = None, None
    for event in events:
        for choice in event["choices"]:
            part = choice.get("delta") or choice.get("message") or choice
            texts.append(part.get("content") or part.get("text") or "")
            reason = choice["finish_reason"] or reason
            told = choice.get("speculation", {}).get("tokens")
            if told is not None:
                ids = [*(ids or []), *(token["id"] for token in told)]
        if event.get("usage"):
            usage = event["usage"]["prompt_tokens"], event["usage"]["completion_tokens"]
    return Assembled("".join(texts), None if ids is None else tuple(ids), reason, usage)


def check_answer(found: Assembled, expected: ExpectedAnswer) -> list[str]:
    """A whole answer is the one of decoding alone, with no token lost and none twice."""
    problems = []
    if found.text != expected.text:
        problems.append(_difference("the text", found.text, expected.text))
    if found.token_ids is not None and found.token_ids != expected.token_ids:
        problems.append(f"the tokens are {found.token_ids}, not {expected.token_ids}")
    if found.finish_reason != expected.finish_reason:
        problems.append(f"it ended with {found.finish_reason!r}, not {expected.finish_reason!r}")
    counts = expected.prompt_tokens, len(expected.token_ids)
    if found.usage is not None and found.usage != counts:
        problems.append(f"prompt and answer are said to have {found.usage} tokens, not {counts}")
    return problems


def check_beginning(found: Assembled, expected: ExpectedAnswer) -> list[str]:
    """What came before a client left is a beginning of the right answer."""
    problems = []
    if not expected.text.startswith(found.text):
        problems.append(_difference("the beginning", found.text, expected.text))
    ids = found.token_ids or ()
    if expected.token_ids[: len(ids)] != ids:
        problems.append(f"the first tokens are {ids}, not those of {expected.token_ids}")
    return problems


def check_refusal(status: int, content: bytes) -> list[str]:
    """A request that can't be served is refused with OpenAI's error object."""
    problems = []
    if not 400 <= status < 500:
        problems.append(f"the status is {status}")
    try:
        error = json.loads(content)["error"]
        is_error = isinstance(error["message"], str) and {"type", "param", "code"} <= set(error)
    except (ValueError, KeyError, TypeError):
        is_error = False
    if not is_error:
        problems.append(f"the answer is no error object: {content[:SHOWN]!r}")
    return problems


def check_pages(before: int, after: int, cached_before: int, cached_after: int) -> list[str]:
    """With the same prefixes kept, as many pages are in use as before.

    Args:
        before: pages in use once the questions had been answered one after the other.
        after: the same after the load.
        cached_before: tokens of kept prefixes then.
        cached_after: tokens of kept prefixes afterwards.
    """
    problems = []
    if cached_before != cached_after:
        problems.append(
            f"{cached_after} tokens of prefixes are kept after the load, not {cached_before}"
        )
    if after > before:
        problems.append(f"{after} pages are in use after the load, not {before}")
    return problems


def memory_growth(samples: Sequence[int]) -> float:
    """How much larger the last third of the samples is than the first, by their medians."""
    third = max(1, len(samples) // 3)
    return median(samples[-third:]) / median(samples[:third]) - 1


def check_memory(samples: Sequence[int]) -> list[str]:
    """The memory of the process is flat.

    Args:
        samples: bytes at equal distances in time, after the warm-up.
    """
    if not samples:
        return ["the memory of the process was never seen"]
    growth = memory_growth(samples)
    return [f"the memory of the process grew by {growth:.1%}"] if growth > MEMORY_GROWTH else []


def _difference(what: str, found: str, expected: str) -> str:
    place = next(
        (at for at, pair in enumerate(zip(found, expected, strict=False)) if pair[0] != pair[1]),
        min(len(found), len(expected)),
    )
    start = max(0, place - 10)
    return (
        f"{what} differs at character {place}: …{found[start : start + SHOWN]!r}, not "
        f"…{expected[start : start + SHOWN]!r}"
    )
