"""The figures and tables of a benchmark."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from oneglance.bench.figures import results, samples
from oneglance.bench.grid import Grid
from oneglance.bench.run import Run
from oneglance.bench.subject import count_depths, without_folders
from oneglance.bench.tables import bench_grids, drafter_grids
from oneglance.bench.words import findings
from oneglance.types import ROOT, PassTrace
from tests.bench.runs import pair, run


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("draft:/models/x.gguf@k=4", "draft:x.gguf@k=4"),
        ("cascade:suffix,draft:/m/x.gguf", "cascade:suffix,draft:x.gguf"),
        ("--prompts=/data/p.jsonl --json docs/m/o.json", "--prompts=p.jsonl --json docs/m/o.json"),
        ("draft:org/model", "draft:org/model"),
    ],
)
def test_folders_of_this_machine_are_left_out(text: str, expected: str) -> None:
    assert without_folders(text) == expected


def trace(parents: tuple[int, ...], accepted: tuple[int, ...]) -> PassTrace:
    return PassTrace("d", (0,) * len(parents), parents, accepted, 1, "recovered")


def test_depths_count_passes_not_tokens() -> None:
    chain = trace((ROOT, 0, 1), (0,))
    tree = trace((ROOT, ROOT, 1), (1, 2))
    nothing = trace((), ())
    assert count_depths([chain, tree, nothing]) == ((2, 2), (2, 1), (1, 0))
    assert count_depths([]) == ()


PEERS = {"slow": 20.0, "fast": 8.0}
"""Seconds of the same answer."""

# The ratios of a1 are 2, 4 and 2 by rounds, that of a2 is 5, that of b1 is 1.
GROUPS = [
    pair("a1", 10, 5),
    pair("a1", 20, 5, 1),
    pair("a1", 8, 4, 2),
    pair("a2", 10, 2),
    pair("b1", 4, 4),
]


def test_speedups_are_medians_of_medians_of_paired_ratios() -> None:
    found = results(GROUPS)
    assert list(found) == ["0 a", "0 b", "0 all"]
    of_a = found["0 a"]["d"]
    assert of_a["prompts"] == 2
    assert of_a["speedup"] == pytest.approx([3.5, 2.75, 4.25])
    assert of_a["tokens_per_second"] == pytest.approx((20 / 5 + 20 / 2) / 2)
    assert of_a["tokens_per_second_with_prompt"] == pytest.approx((20 / 6 + 20 / 3) / 2)
    assert of_a["speedup_with_prompt"] == pytest.approx((11 / 6 + 11 / 3) / 2)
    assert of_a["pooled_speedup"] == pytest.approx((10 + 20 + 8 + 10) / (5 + 5 + 4 + 2))
    assert found["0 all"]["d"]["speedup"][0] == 2
    assert found["0 all"]["plain"]["speedup"] == [1, 1, 1]


def test_counts_are_pooled() -> None:
    summary = results(GROUPS)["0 all"]["d"]
    assert (summary["passes"], summary["drafted"], summary["accepted"]) == (50, 150, 50)
    assert summary["acceptance_rate"] == pytest.approx(1 / 3)
    assert summary["mean_accepted_length"] == 2
    assert summary["draft_share"] == 0.25
    assert summary["depths"] == [[50, 35], [50, 15]]


def test_another_program_may_not_tell_its_passes() -> None:
    peer = run("a1", "peer", 5, passes=None, drafted=12, accepted=9)
    found = results([{**pair("a1", 10, 5), "peer": peer}])["0 all"]
    assert found["peer"]["mean_accepted_length"] is None
    assert found["peer"]["speedup"][0] == 2
    assert found["peer"]["depths"] == []


def test_a_drafter_is_compared_with_the_best_setting_of_a_peer() -> None:
    slow, fast = (run("a1", f"llama-server {name}", seconds) for name, seconds in PEERS.items())
    group = {**pair("a1", 10, 5), slow.subject: slow, fast.subject: fast}
    found = results([group])
    assert found["0 a"]["d"]["best_peer"] == "llama-server fast"
    assert found["0 a"]["d"]["speedup_over_peer"] == pytest.approx([1.6] * 3)
    grid = drafter_grids({"is_seeded": True, "results": found})[1]
    assert grid.headings[3:] == ("plain", "d")
    assert grid.rows == (("a", "llama-server fast", "2.5", "0.80 (0.80–0.80)", "1.60 (1.60–1.60)"),)


def test_temperatures_are_told_apart() -> None:
    warm = {
        label: replace(each, temperature=0.8, seconds=1 + 2 * each.decode_seconds)
        for label, each in pair("a1", 10, 5).items()
        if label == "plain"
    }
    found = results([*GROUPS, warm])
    assert list(found)[-2:] == ["0.8 a", "0.8 all"]
    assert list(found["0.8 all"]) == ["plain"]
    assert found["0.8 all"]["plain"]["tokens_per_second"] == 1


def test_samples_are_all_there() -> None:
    found = samples(GROUPS)
    assert found["0 a1"]["d"] == [[20, 5.0, 1.0], [20, 5.0, 1.0], [20, 4.0, 1.0]]


def test_tables_have_the_figures() -> None:
    speed, work, depth = drafter_grids({"is_seeded": True, "results": results(GROUPS)})
    assert results(GROUPS)["0 all"]["d"]["speedup_over_peer"] is None
    assert speed.rows[0] == ("a", "2", "2.0", "3.50 (2.75–4.25)")
    assert [row[0] for row in speed.rows] == ["a", "b", "all"]
    assert work.rows[1][6:] == ("2.00", "33% (50/150)", "25.0%")
    assert work.rows[0][6:] == ("1.00", "–", "–")
    assert depth.headings == ("", "1", "2")
    assert depth.rows == (("d", "0.70 (50)", "0.30 (50)"),)
    only_a = drafter_grids({"is_seeded": True, "results": results(GROUPS[:4])})[0]
    assert [row[0] for row in only_a.rows] == ["a"]


def test_shares_are_parts_of_all_seconds() -> None:
    phases: dict[str, Any] = {"draft_seconds": 1.0, "verify_seconds": 2.5, "accept_seconds": 0.25}
    found = results([{"plain": run("a1", "plain", 4, **phases)}])["0 all"]["plain"]
    assert found["shares"] == pytest.approx(
        {"prompt": 0.2, "draft": 0.2, "verify": 0.5, "accept": 0.05, "rest": 0.05}
    )


def test_the_first_token_is_a_median_of_medians() -> None:
    times = [("a1", 0, 1.0), ("a1", 1, 3.0), ("a1", 2, 2.0), ("a2", 0, 8.0)]
    groups = [
        {"plain": run(prompt, "plain", 4, number, first_token_seconds=seconds)}
        for prompt, number, seconds in times
    ]
    assert results(groups)["0 all"]["plain"]["seconds_to_first_token"] == 5
    untold = [*groups, {"plain": run("a3", "plain", 4)}]
    assert results(untold)["0 all"]["plain"]["seconds_to_first_token"] is None


def test_answers_that_were_compared_are_counted() -> None:
    def answers(prompt: str, is_identical: bool | None) -> dict[str, Run]:
        plain = run(prompt, "plain", 4, is_identical=True)
        return {"plain": plain, "s": run(prompt, "s", 4, is_identical=is_identical)}

    found = results([answers("a1", True), answers("a2", False), answers("a3", None)])["0 all"]
    assert (found["s"]["identical"], found["s"]["compared"]) == (1, 2)
    assert (found["plain"]["identical"], found["plain"]["compared"]) == (3, 3)


SERVERS = [
    {
        "one": run("a1", "one", 3, prefill_seconds=None, passes=None),
        "two": run("a1", "two", 1, prefill_seconds=None, passes=None),
    }
]


def test_servers_are_compared_by_whole_answers() -> None:
    found = results(SERVERS)["0 all"]
    assert found["two"]["answer_speedup"] == [2, 2, 2]
    assert found["two"]["speedup"] is found["two"]["tokens_per_second"] is None
    assert found["two"]["shares"] is None
    speed, work = bench_grids({"is_seeded": True, "results": results(SERVERS)})
    assert speed.title.startswith("Times as fast as one, greedy, the reading of the prompt incl")
    assert speed.rows == (("a", "1", "5.0", "2.00 (2.00–2.00)"),)
    assert work.rows == (
        ("tokens/s with the prompt", "5.0", "10.0"),
        ("times one with the prompt", "1.00", "2.00"),
    )


def test_a_server_beside_plain_decoding_is_compared_by_whole_answers() -> None:
    server = run("a1", "s", 1, prefill_seconds=None, passes=None)
    report = {"is_seeded": True, "results": results([{**pair("a1", 10, 5), "s": server}])}
    speed = bench_grids(report)[0]
    assert "the reading of the prompt included" in speed.title
    assert speed.rows == (("a", "1", "1.8", "1.83 (1.83–1.83)", "5.50 (5.50–5.50)"),)


def test_the_table_of_subjects_has_every_figure() -> None:
    work = bench_grids({"is_seeded": True, "results": results(GROUPS)})[1]
    cells = {name: tuple(texts) for name, *texts in work.rows}
    assert work.headings == ("", "plain", "d")
    assert cells["times plain"] == ("1.00", "2.00")
    assert cells["times plain, all tokens together"] == ("1.00", "2.60")
    assert cells["mean accepted length"] == ("1.00", "2.00")
    assert cells["accepted ÷ drafted"] == ("–", "33% (50/150)")
    assert cells["time: reading the prompt"] == ("8.8%", "20.0%")
    assert cells["time: drafter"] == ("0.0%", "20.0%")
    assert "ms to the first token" not in cells  # nobody told


REPORT = {"is_complete": True, "is_seeded": True}


def test_what_was_found_is_said_in_sentences() -> None:
    fastest, *others = findings({**REPORT, "results": results(GROUPS)})
    assert fastest == (
        "Greedy: d was the fastest, 2.00 (1.50–3.50) times as fast as plain decoding (median and "
        "quartiles over 3 prompts)."
    )
    assert others == []


def test_a_loss_is_called_a_loss() -> None:
    (sentence,) = findings({**REPORT, "results": results([pair("a1", 4, 5)])})
    assert "none was faster than plain decoding; d comes next with 0.80" in sentence


def test_missing_runs_and_other_answers_are_told() -> None:
    plain = run("a1", "plain", 4, is_identical=True)
    same = results([{"plain": plain, "d": run("a1", "d", 4, is_identical=True)}])
    other = results([{"plain": plain, "d": run("a1", "d", 4, is_identical=False)}])
    assert "All 1 compared answers were those of plain" in " ".join(
        findings({**REPORT, "results": same})
    )
    words = findings(
        {
            "is_complete": False,
            "is_seeded": True,
            "groups": {"done": 1, "planned": 4},
            "results": other,
        }
    )
    assert "0 of 1 compared answers" in words[1]
    assert words[2].endswith("these are 1 of 4 groups of answers.")


def test_a_narrow_terminal_gets_whole_names() -> None:
    name = "cascade:suffix,draft:qwen2.5-coder-0.5b@k=4@nodes=16"
    grid = Grid("Title", ("", name, name), (("x", "1.00", "2.00"),))
    file = StringIO()
    Console(width=60, file=file).print(grid.to_rich())
    printed = file.getvalue()
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= 60
