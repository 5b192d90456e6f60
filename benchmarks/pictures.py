"""What the pictures of docs/how-it-works.md show, measured on this machine.

    python -m benchmarks.pictures [--model M] [--drafters D D] --json FILE

Runs `oneglance calibrate`, `plan --regime` and `show` and keeps what they print, and draws one
token many times by the accept rule and by the rule that one would think of first, in a place
where target and draft disagree. On a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.options import checked_main, writable_path
from oneglance.cli.provenance import provenance
from oneglance.decode.watch import SeenPass
from oneglance.llm import LLM, load
from oneglance.sampling.noise import Noise, SequentialNoise
from oneglance.show.visible import token_text
from oneglance.types import ROOT, Float64Array, Proposal
from oneglance.verify.base import Acceptance, TargetLaw
from oneglance.verify.select import accept

MODEL, DRAFTERS = "qwen2.5-coder-1.5b", ("suffix", "draft:qwen2.5-coder-0.5b")
SENTENCE = "In one sentence: why is the sky blue?"
PLACE = "She opened the door and saw a"
TOP_K, TRIALS = 8, 100_000

Rule = Callable[[Proposal, TargetLaw, Noise], Acceptance]


def keep_if_it_agrees(proposal: Proposal, target: TargetLaw, noise: Noise) -> Acceptance:
    """The rule one would think of first: the target draws too; where they differ it draws anew."""
    drafted = int(proposal.tokens[0])
    if noise.draw(target.probs(ROOT)) == drafted:
        return Acceptance((0,), noise.draw(target.probs(0)), "bonus")
    return Acceptance((), noise.draw(target.probs(ROOT)), "recovered")


class OneLaw(TargetLaw):
    """A target that has the same law everywhere."""

    is_greedy = False
    position = 0

    def __init__(self, law: Float64Array) -> None:
        """Takes the law [V]."""
        self.vocab_size = len(law)
        self._law = law

    def logits(self, node: int) -> Float64Array:  # noqa: ARG002
        """Its logarithm."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._law))

    def probs(self, node: int) -> Float64Array:  # noqa: ARG002
        """The law."""
        return self._law

    def argmax(self, node: int) -> int:  # noqa: ARG002
        """Its most probable token."""
        return int(np.argmax(self._law))


def frequencies(
    rule: Rule, target_probs: Float64Array, draft_probs: Float64Array, trials: int, seed: int
) -> Float64Array:
    """[V] how often each token came first when a token was drafted, judged and, perhaps, replaced.

    Args:
        rule: decides.
        target_probs: [V] the target's law.
        draft_probs: [V] the law that the draft is drawn from.
        trials: how many times.
        seed: of all random choices.
    """
    noise, target = SequentialNoise(seed), OneLaw(target_probs)
    counts = np.zeros(len(target_probs))
    for _ in range(trials):
        drafted = noise.draw(draft_probs)
        outcome = rule(Proposal.chain([drafted], [draft_probs]), target, noise)
        counts[drafted if outcome.path else outcome.next_token] += 1
    return np.asarray(counts / trials)


class _FirstLaws:
    """Watches for the laws of target and draft in the first pass that drafts."""

    def __init__(self) -> None:
        self.laws: tuple[Float64Array, Float64Array] | None = None

    def see(self, seen: SeenPass) -> None:
        if self.laws is None and seen.proposal.draft_probs is not None:
            self.laws = (seen.law.probs(ROOT).copy(), seen.proposal.draft_probs[0].copy())

    def note_seconds(self, draft: float, verify: float, accept: float) -> None:
        """Times do not matter here."""


def measure_laws(llm: LLM, drafter: str) -> dict[str, Any]:
    """Both laws at one place, and what two rules make of them."""
    watcher = _FirstLaws()
    answer = llm.stream(
        PLACE, raw=True, drafter=drafter, k=1, watcher=watcher,
        temperature=1.0, top_k=TOP_K, max_tokens=4,
    )  # fmt: skip
    for _ in answer:
        pass
    assert watcher.laws is not None, f"{drafter} draws nothing at random"
    target, draft = watcher.laws
    ids = np.flatnonzero((target > 0) | (draft > 0))
    ids = ids[np.argsort(-target[ids], kind="stable")]
    target, draft = target[ids], draft[ids] / draft[ids].sum()
    rules: dict[str, Rule] = {"naive": keep_if_it_agrees, "rule": accept}
    return {
        "prompt": PLACE,
        "drafter": drafter,
        "top_k": TOP_K,
        "trials": TRIALS,
        "tokens": [token_text(llm.tokenizer, int(token)).shown for token in ids],
        "target": target.tolist(),
        "draft": draft.tolist(),
        **{
            name: frequencies(rule, target, draft, TRIALS, seed).tolist()
            for seed, (name, rule) in enumerate(rules.items(), 1)
        },
    }


def run_json(*words: str) -> dict[str, Any]:
    """What a command prints as JSON, with the command."""
    done = subprocess.run(
        [sys.executable, "-m", "oneglance", *words], check=True, stdout=subprocess.PIPE
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return {"command": shlex.join(["oneglance", *words]), **result}


def measure(model: str, drafters: list[str], command: str) -> dict[str, Any]:
    """All figures of the pictures; the second drafter must be one that draws at random."""
    load_average = os.getloadavg()
    names = [word for drafter in drafters for word in ("--drafter", drafter)]
    report = {
        **provenance(command),
        "load_average_before": load_average,
        "model": model,
        "calibrate": run_json("calibrate", "-m", model, "--drafter", "none", "--json"),
        "plan": run_json("plan", "-m", model, *names, "--regime", "--json"),
        "sentence": run_json(
            "show", SENTENCE, "-m", model, "--drafter", drafters[-1], "-k", "4", "-n", "64",
            "--rounds", "3", "--json", "-",
        ),
    }  # fmt: skip
    with load(model, "none") as llm:
        report["file_bytes"] = llm.checkpoint.path.stat().st_size
        report["quantization"] = llm.checkpoint.quantization_summary()
        report["engine"] = llm.engine.info.to_dict()
        report["laws"] = measure_laws(llm, drafters[-1])
    report["load_average_after"] = os.getloadavg()
    return report


def main() -> None:
    """Measures and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument(
        "--drafters", nargs=2, default=list(DRAFTERS), help="the second must draw at random"
    )
    parser.add_argument("--json", type=writable_path, required=True, dest="path", metavar="FILE")
    given = parser.parse_args()
    words = ["python", "-m", "benchmarks.pictures", "--model", given.model]
    words += ["--drafters", *given.drafters, "--json", str(given.path)]
    report = measure(given.model, given.drafters, shlex.join(words))
    given.path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    checked_main(main)
