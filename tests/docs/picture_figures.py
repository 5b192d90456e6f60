"""The figures that the pictures of docs/how-it-works.md show, and what they say in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oneglance.control.calibration import Calibration
from oneglance.control.cost import PassCosts
from oneglance.control.plan import (
    Draft,
    best_length,
    bigger_draft,
    expected_tokens,
    speedup,
)
from oneglance.show.figures import figures
from oneglance.show.trace_json import from_dict

Report = dict[str, Any]
Curve = list[tuple[float, float]]

GUESSES = (0.9, 0.7, 0.5)
LENGTHS = range(17)
NEARLY_FREE = 1.5
"""A pass that costs at most so many passes of one token is called nearly free."""


def idle_share(report: Report) -> float:
    """Of the time of a plain token, the part in which the arithmetic has nothing to do."""
    regime = report["plan"]["regime"]
    return 1.0 - float(regime["limits"]["row_seconds"] / regime["times"][0]["plain"])


def free_rows(report: Report) -> int:
    """The most rows of a measured pass that is nearly free."""
    found = report["calibrate"]
    pairs = zip(found["rows"], found["seconds"], strict=True)
    return max(int(rows) for rows, seconds in pairs if seconds <= NEARLY_FREE * found["seconds"][0])


def drafts_of(report: Report) -> list[Draft]:
    """The drafters that the plan measured."""
    fields = ("name", "acceptance", "cost", "coverage")
    return [Draft(*(each[name] for name in fields)) for each in report["plan"]["drafters"]]


def names_of_drafters(report: Report) -> list[str]:
    """The drafter whose batches were measured, then the model that drafts."""
    return [report["plan"]["best"]["drafter"], drafts_of(report)[-1].name]


class Costs:
    """What passes cost in passes of one row, as `oneglance plan` reckons."""

    def __init__(self, report: Report) -> None:
        calibration = Calibration.from_dict(report["calibrate"])
        self._passes = PassCosts()
        calibration.apply(self._passes)
        self._one_row = calibration.seconds[0]

    def __call__(self, num_rows: int) -> float:
        return self._passes.seconds_of(num_rows) / self._one_row


def token_curves() -> dict[float, Curve]:
    """Expected tokens of a pass by K, for some acceptances."""
    return {a: [(float(k), expected_tokens(a, k)) for k in LENGTHS] for a in GUESSES}


def speedup_curves(report: Report) -> dict[str, Curve]:
    """Times as fast by K: both drafters, and the second made bigger and better."""
    verify, drafts = Costs(report), drafts_of(report)
    drafts.append(bigger_draft(drafts[-1]))
    return {
        f"{draft.name}: {draft.acceptance:.0%} kept, a token costs {draft.cost:.2f} passes": [
            (float(k), speedup(draft, k, verify)) for k in LENGTHS
        ]
        for draft in drafts
    }


def throughputs(report: Report) -> tuple[Curve, Curve]:
    """Tokens a second by batch, without and with drafts."""
    regime = report["plan"]["regime"]
    plain = [(float(each["batch"]), each["batch"] / each["plain"]) for each in regime["times"]]
    pairs = zip(plain, regime["gains"], strict=True)
    return plain, [(batch, speed * gain) for (batch, speed), gain in pairs]


def first_losing_batch(report: Report) -> int | None:
    """The least measured batch at which drafting loses; None where it never does."""
    regime = report["plan"]["regime"]
    pairs = zip(regime["times"], regime["gains"], strict=True)
    return next((each["batch"] for each, gain in pairs if gain <= 1.0), None)


def captions(report: Report) -> dict[str, str]:
    """A sentence or two for each picture, and the answers to the two questions."""
    return {
        "sweep": _sweep(report),
        "rows": _rows(report),
        "sentence": _sentence(report),
        "laws": _laws(report),
        "length": _length(report),
        "batch": _batch(report),
        "answer-draft": _answer_draft(report),
        "answer-load": _answer_load(report),
    }


def _sweep(report: Report) -> str:
    regime = report["plan"]["regime"]
    limits, token = regime["limits"], regime["times"][0]["plain"]
    return (
        f"{report['model']} has {report['file_bytes'] / 1e9:.2f} GB of weights. A token took "
        f"{1000 * token:.0f} ms here; reading the weights once takes "
        f"{1000 * limits['memory_seconds']:.0f} ms, the multiplications would take "
        f"{1000 * limits['row_seconds']:.0f} ms. The arithmetic was idle "
        f"{idle_share(report):.0%} of the time."
    )


def _rows(report: Report) -> str:
    found = report["calibrate"]
    one, most = found["seconds"][0], found["seconds"][-1]
    return (
        f"A pass over one token took {1000 * one:.0f} ms, over {found['rows'][-1]} tokens "
        f"{1000 * most:.0f} ms, which is {most / one:.1f} times as long. Up to "
        f"{free_rows(report)} tokens cost at most {NEARLY_FREE:g} times what one costs."
    )


def _sentence(report: Report) -> str:
    trace = from_dict(report["sentence"])
    found = figures(trace)
    return (
        f"“{trace.request.prompt}” {found.delivered} tokens of {trace.request.model} in "
        f"{found.passes} passes, {found.mean_accepted_length:.2f} a pass; "
        f"{trace.request.drafter} drafted, {found.accepted} of its {found.drafted} tokens were "
        "kept."
    )


def distance(found: Mapping[str, Any], name: str) -> float:
    """Half the sum of absolute differences of measured frequencies from the target's law."""
    pairs = zip(found[name], found["target"], strict=True)
    return sum(abs(float(one) - float(other)) for one, other in pairs) / 2


def _laws(report: Report) -> str:
    found = report["laws"]
    best = max(
        range(len(found["target"])),
        key=lambda each: abs(found["naive"][each] - found["target"][each]),
    )
    return (
        f"After “{found['prompt']}” the model says “{found['tokens'][best].strip()}” with "
        f"probability {found['target'][best]:.1%}; in {found['trials']:,} draws the accept rule "
        f"came to {found['rule'][best]:.1%}, “keep it if it agrees” to "
        f"{found['naive'][best]:.1%}. Over all tokens the first is "
        f"{distance(found, 'rule'):.1%} off, which is what chance leaves, the second "
        f"{distance(found, 'naive'):.1%}."
    )


def _length(report: Report) -> str:
    verify, drafts = Costs(report), drafts_of(report)
    parts = [
        f"{draft.name} is best with K = {best_length(draft, verify)}, "
        f"{speedup(draft, best_length(draft, verify), verify):.2f} times plain speed"
        for draft in drafts[-2:]
    ]
    return (
        "Left: if each drafted token is kept with the probability beside the line, four drafted "
        f"tokens make {expected_tokens(0.7, 4):.1f} tokens a pass at 70%, eight make "
        f"{expected_tokens(0.7, 8):.1f}. Right, with what passes and drafts cost here: "
        f"{'; '.join(parts)}."
    )


def _batch(report: Report) -> str:
    plain, drafted = throughputs(report)
    name = names_of_drafters(report)[0]
    words = (
        f"One answer: {plain[0][1]:.1f} tokens a second without and {drafted[0][1]:.1f} with "
        f"drafts of {name}. {plain[-1][0]:g} answers at once: {plain[-1][1]:.1f} and "
        f"{drafted[-1][1]:.1f}."
    )
    losing = first_losing_batch(report)
    if losing is None:
        return f"{words} Drafting paid at every number of answers that was measured."
    if losing == plain[0][0]:
        return f"{words} With these drafts it did not pay even for one answer."
    return f"{words} From {losing} answers on drafting lost."


def _answer_draft(report: Report) -> str:
    verify, draft = Costs(report), drafts_of(report)[-1]
    lengths = {each: best_length(each, verify) for each in (draft, bigger_draft(draft))}
    speeds = [speedup(each, k, verify) for each, k in lengths.items()]
    better = bigger_draft(draft)
    verdict = "it would be faster" if speeds[1] > speeds[0] else "it would be slower"
    if not any(lengths.values()):
        verdict = "neither pays, plain decoding is faster than both"
    return (
        f"{draft.name} keeps {draft.acceptance:.0%} of its tokens here and costs "
        f"{draft.cost:.2f} of a pass for each. A draft model four times as dear that were wrong a "
        f"third as often would keep {better.acceptance:.0%} and cost {better.cost:.2f}: with the "
        f"best K of each, {speeds[1]:.2f} against {speeds[0]:.2f} times plain speed: {verdict}."
    )


def _answer_load(report: Report) -> str:
    regime = report["plan"]["regime"]
    one, many = regime["times"][0], regime["times"][-1]
    extra = [each["verifying"] / each["plain"] for each in (one, many)]
    return (
        f"A pass that checks {regime['num_draft_tokens']} drafted tokens cost {extra[0]:.1f} "
        f"times a plain one with one answer in it, and {extra[1]:.1f} times with "
        f"{many['batch']} answers in it."
    )
