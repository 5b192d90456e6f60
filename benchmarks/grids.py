"""The tables of an engine report, as rows of text, for the terminal and for documents."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.summary import (
    PassTimes,
    Report,
    bare_kernels,
    kernel_shares,
    pass_rates,
    ratios,
    read_rates,
    series,
    speeds,
)
from oneglance.bench.grid import Grid, show, spread_text
from oneglance.bench.timing import Spread

WHOLE = "whole pass"


def all_grids(report: Report) -> list[Grid]:
    """Every table that the report has figures for, in the order of reading."""
    grids = [summary_grid, pass_grid, ratio_grid, bare_grid, call_grid]
    if "llama-bench" in report["samples"]:
        grids.append(llama_grid)
    return [grid(report) for grid in grids]


def summary_grid(report: Report) -> Grid:
    """The single figures."""
    return Grid("Single figures, median (quartiles)", ("", "measured"), tuple(_summary(report)))


def _summary(report: Report) -> Iterable[tuple[str, str]]:
    samples = report["samples"]
    plain = samples["plain"]
    reads = read_rates(report)
    context = min(PassTimes.of(report).contexts)
    rates = pass_rates(report, context)
    yield "plain decoding, greedy, tokens/s", spread_text(speeds(plain), ".1f")
    prefill = [report["prefill_tokens"] / each for each in series(samples["prefill"])]
    yield f"prefill of {report['prefill_tokens']} tokens, tokens/s", spread_text(prefill, ".0f")
    yield "weights read by a pass, MB", f"{report['pass_bytes'] / 1e6:.1f}"
    yield "stream read of the memory, GB/s", spread_text([each / 1e9 for each in reads], ".1f")
    yield (
        f"read by a pass of one row, context {context}, GB/s",
        spread_text([each / 1e9 for each in rates], ".1f"),
    )
    yield "share of the stream read", spread_text(ratios(rates, reads), ".0%")
    load = [sample["read"] + sample["pack"] for sample in samples["load"]]
    yield "loading, everything imported, s", spread_text(load, ".2f")
    first = samples["first token"]
    yield "`oneglance generate`, start to first token, s", spread_text(first, ".2f")
    if "server" in samples:
        yield from _server_lines(samples["plain"], samples["server"])


def _server_lines(
    plain: list[dict[str, float]], server: list[dict[str, float]]
) -> Iterable[tuple[str, str]]:
    own = [sample["tokens"] / sample["seconds"] for sample in plain]
    other = speeds(server)
    yield "the same prompt and answer, prompt included, tokens/s", spread_text(own, ".1f")
    yield "the server's, over HTTP, tokens/s", spread_text(other, ".1f")
    yield "times the server's speed", spread_text(ratios(own, other), ".2f")


def pass_grid(report: Report) -> Grid:
    """Milliseconds a pass."""
    times = PassTimes.of(report)
    return Grid(
        "Milliseconds per pass, median (quartiles), by rows and context",
        ("rows", *(str(context) for context in times.contexts)),
        tuple(
            (str(rows), *(show(times.milliseconds(c, rows), ".1f") for c in times.contexts))
            for rows in times.rows
        ),
    )


def ratio_grid(report: Report) -> Grid:
    """Passes in units of a pass of one row."""
    times = PassTimes.of(report)
    return Grid(
        "Time of a pass ÷ that of one row, median (quartiles) of the rounds, by rows and context",
        ("rows", *(str(context) for context in times.contexts)),
        tuple(
            (str(rows), *(show(times.ratio(c, rows), ".2f") for c in times.contexts))
            for rows in times.rows
            if rows > 1
        ),
    )


def call_grid(report: Report) -> Grid:
    """Milliseconds by kernel call."""
    context, rows = _kernel_settings(report)
    return _share_grid(
        f"Where a pass spends its milliseconds (its share), context {context}, by rows",
        rows,
        [kernel_shares(report["samples"][f"kernels {context} {count}"]) for count in rows],
    )


def bare_grid(report: Report) -> Grid:
    """Milliseconds of the bare kernels."""
    context, rows = _kernel_settings(report)
    return _share_grid(
        f"What a pass consists of, context {context}: milliseconds (share of the pass), by rows",
        rows,
        [bare_kernels(report, context, count) for count in rows],
    )


def _kernel_settings(report: Report) -> tuple[str, tuple[str, ...]]:
    """The context and the numbers of rows at which kernels were timed."""
    settings = [name.split()[1:] for name in report["samples"] if name.startswith("kernels ")]
    return settings[0][0], tuple(rows for _, rows in settings)


def _share_grid(title: str, rows: tuple[str, ...], shares: list[dict[str, Spread]]) -> Grid:
    parts = list(dict.fromkeys(part for share in shares for part in share if part != WHOLE))
    return Grid(
        title,
        ("", *rows),
        tuple((part, *(_share_text(share, part) for share in shares)) for part in (*parts, WHOLE)),
    )


def _share_text(shares: dict[str, Spread], part: str) -> str:
    if part not in shares:
        return ""
    return f"{shares[part].middle:.2f} ({shares[part].middle / shares[WHOLE].middle:.0%})"


def llama_grid(report: Report) -> Grid:
    """Against llama.cpp on the same file, in the same rounds."""
    own, other = PassTimes.of(report), PassTimes.of_llama(report)
    rounds = report["samples"]["llama-bench"]
    context = rounds[0]["context"]
    plain = speeds(report["samples"]["plain"])
    llama_plain = speeds([each["plain"] for each in rounds])
    prefill = [report["prefill_tokens"] / each for each in series(report["samples"]["prefill"])]
    llama_prefill = speeds([each["prefill"] for each in rounds])
    lines = [
        _against("plain decoding, tokens/s", plain, llama_plain, ".1f"),
        _against(f"prefill of {report['prefill_tokens']} tokens/s", prefill, llama_prefill, ".0f"),
    ]
    for rows in other.rows:
        lines.append(
            _against(
                f"pass of {rows} rows, passes/s",
                [1 / each for each in own.seconds[context, rows]],
                [1 / each for each in other.seconds[context, rows]],
                ".1f",
            )
        )
    return Grid(
        f"Against llama.cpp build {rounds[0]['build']}; passes behind {context} tokens",
        ("", "oneglance", "llama.cpp", "times as fast"),
        tuple(lines),
    )


def _against(
    label: str, own: list[float], other: list[float], form: str
) -> tuple[str, str, str, str]:
    factor = spread_text(ratios(own, other), ".2f")
    return label, spread_text(own, form), spread_text(other, form), factor
