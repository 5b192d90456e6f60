"""What a report says, in sentences: what was found, where, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oneglance.bench.figures import ALL
from oneglance.bench.grid import show
from oneglance.bench.subject import PLAIN
from oneglance.bench.tables import law_of, speedup_key, temperatures_of
from oneglance.bench.timing import Spread

Report = Mapping[str, Any]


def findings(report: Report) -> list[str]:
    """On each temperature, on whether answers were equal, and on runs that are missing."""
    sentences = [_fastest(report, temperature) for temperature in temperatures_of(report)]
    sentences.append(_identity(report))
    if not report["is_complete"]:
        done, planned = report["groups"]["done"], report["groups"]["planned"]
        sentences.append(
            f"The measurement was interrupted: these are {done} of {planned} groups of answers."
        )
    return [sentence for sentence in sentences if sentence]


def _fastest(report: Report, temperature: str) -> str:
    """Which subject was the fastest; a loss is called a loss."""
    base, *labels = summaries = report["results"][f"{temperature} {ALL}"]
    if not labels:
        return ""
    key = speedup_key(report, temperature)
    best = max(labels, key=lambda label: summaries[label][key][0])
    spread = Spread(*summaries[best][key])
    named = "plain decoding" if base == PLAIN else base
    prompts = summaries[best]["prompts"]
    law = law_of(report, temperature)
    measured = f"(median and quartiles over {_counted(prompts, 'prompt')})"
    if spread.middle < 1:
        return (
            f"{_capital(law)}: none was faster than {named}; {best} comes next with "
            f"{show(spread, '.2f')} times its speed {measured}."
        )
    return (
        f"{_capital(law)}: {best} was the fastest, {show(spread, '.2f')} times as fast as {named} "
        f"{measured}."
    )


def _identity(report: Report) -> str:
    """How many answers were compared with those of the first subject, and how many were equal."""
    compared = identical = 0
    base = next(iter(next(iter(report["results"].values()))))
    for key, subjects in report["results"].items():
        if key.partition(" ")[2] == ALL:
            others = [summary for label, summary in subjects.items() if label != base]
            compared += sum(summary["compared"] for summary in others)
            identical += sum(summary["identical"] for summary in others)
    if compared == 0:
        return ""
    if identical == compared:
        return f"All {compared} compared answers were those of {base}, equal in every token."
    return (
        f"{identical} of {compared} compared answers were those of {base}; other programs compute "
        "in another order, so that theirs may differ."
    )


def origin_facts(report: Report) -> list[tuple[str, str]]:
    """Command, day, program, machine."""
    revision = (report["git_revision"] or "not from a checkout")[:12]
    changes = " with changes" if report["git_is_modified"] else ""
    return [
        ("command", report["command"]),
        ("date", report["date"]),
        ("oneglance", f"{report['oneglance']} ({revision}{changes})"),
        ("Python, numpy", f"{report['python']}, {report['numpy']}"),
        ("machine", f"{report['cpu']}, {report['cores']} cores, {report['system']}"),
    ]


def machine_facts(report: Report) -> list[tuple[str, str]]:
    """The model and its prompts, and what the machine gave."""
    prompts = report["prompts"]
    facts = [
        ("prompts", f"{prompts['file']}, SHA-256 {prompts['sha256'][:16]}…"),
        (
            "answers",
            f"at most {report['max_tokens']} tokens, {_counted(report['rounds'], 'round')}",
        ),
    ]
    if report["engine"] is not None:
        facts.insert(
            0, ("model", f"{report['model']} ({report['quantization']}), {_engine(report)}")
        )
    if report["read_bandwidth"] is not None:
        facts.append(("memory read", f"{report['read_bandwidth'] / 1e9:.1f} GB/s"))
    if report["memory"] is not None:
        facts.append(("memory held", _memory(report["memory"])))
    load = f"{report['load_average_before'][0]:.1f}, {report['load_average_after'][0]:.1f}"
    facts.append(("load average before, after", load))
    return facts


def _memory(memory: Mapping[str, Any]) -> str:
    """The most that was held at once, and what each subject took when it first answered."""
    loaded = [
        f"{label} took {taken / 1e6:.0f} MB" for label, taken in memory["taken_by"].items() if taken
    ]
    return "; ".join([f"{memory['peak'] / 1e6:.0f} MB at most", *loaded])


def _engine(report: Report) -> str:
    engine = report["engine"]
    isa = f" ({engine['isa']})" if engine["isa"] else ""
    return f"{engine['kind']} engine{isa}, {engine['threads']} threads"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _counted(number: int, name: str) -> str:
    return f"{number} {name}{'s' * (number != 1)}"
