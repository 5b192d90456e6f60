"""Which layers a model can do without best: what `drafters/skipped_layers.py` has of known models.

    python -m benchmarks.skipped_layers --prompts tests/data/short_prompts.jsonl

Answers some prompts, then judges sets of layers by all tokens of the answers, half of which decide
and half of which confirm. Agreement is counted, nothing is timed: any machine gives the same.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.options import checked_main, whole_number
from oneglance import LLM, load
from oneglance.checkpoints.low_bit import layer_share
from oneglance.drafters.layer_search import (
    Layers,
    LayerSearch,
    estimated_speedup,
    evenly_spaced,
)
from oneglance.engine.base import Batch, Engine, PassLayers, SequenceId, TreeRows

TRIALS_PER_TEXT = 8


@dataclass(frozen=True)
class Answer:
    """A sequence that holds the prompt, and the tokens after it; the first is the last of those."""

    sequence: SequenceId
    tokens: tuple[int, ...]


def answered(llm: LLM, prompts: list[str], num_tokens: int) -> list[Answer]:
    """The prompts' answers, each with its prompt in the cache of all layers."""
    answers = []
    for prompt in prompts:
        context = llm.encode(prompt)
        completion = llm.generate(prompt, max_tokens=num_tokens)
        sequence = llm.engine.open()
        llm.engine.forward(Batch((TreeRows.chain(sequence, context[:-1], wants_logits=False),)))
        llm.engine.commit(sequence, range(len(context) - 1))
        tokens = (context[-1], *(token.token_id for token in completion.tokens))
        answers.append(Answer(sequence, tokens))
    return answers


def agreement(engine: Engine, vocab_size: int, answers: list[Answer], skipped: Layers) -> float:
    """Share of the answers' tokens that the model without these layers puts first."""
    layers = PassLayers(skipped_layers=skipped)
    num_agreed, num_tokens = 0, 0
    for answer in answers:
        rows = TreeRows.chain(answer.sequence, answer.tokens[:-1])
        batch = Batch.through(layers, [rows], num_top=1, top_vocab_size=vocab_size)
        said = engine.forward(batch).top[0].ids[:, 0]
        num_agreed += int(np.count_nonzero(said == np.asarray(answer.tokens[1:])))
        num_tokens += len(said)
    return num_agreed / num_tokens


def find(llm: LLM, answers: list[Answer], num_trials: int) -> None:
    """Searches, and prints each improvement as judged by all answers."""
    num_layers = llm.checkpoint.config.num_layers
    cost = layer_share(llm.checkpoint.weights, "auto")
    search = LayerSearch(evenly_spaced(num_layers), num_layers, cost)
    engine, vocab_size = llm.engine, llm.tokenizer.vocab_size
    best: Layers = ()
    for trial in range(num_trials):
        if search.is_done:
            break
        if trial % TRIALS_PER_TEXT == 0:
            search.begin_text()
        half = answers[trial // TRIALS_PER_TEXT % 2 :: 2]
        search.advance(partial(agreement, engine, vocab_size, half))
        if search.best != best:
            best = search.best
            share = agreement(engine, vocab_size, answers, best)
            draft_cost = 1 - cost * len(best)
            print(
                f"{trial:4d}  {best}  agreement {share:.3f}, cost {draft_cost:.2f}, "
                f"estimated speedup {estimated_speedup(share, draft_cost):.2f}",
                flush=True,
            )


def main() -> None:
    """Reads the command line, answers the prompts and searches."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m", help="name or path")
    parser.add_argument(
        "--prompts", type=Path, required=True, help="JSON lines with prompt or turns"
    )
    parser.add_argument("--num-prompts", type=whole_number, default=12)
    parser.add_argument("--num-tokens", type=whole_number, default=96, help="of an answer")
    parser.add_argument("--num-trials", type=whole_number, default=400)
    arguments = parser.parse_args()
    lines = arguments.prompts.read_text(encoding="utf-8").splitlines()
    # Evenly taken from the file, whose lines may be sorted by subject.
    objects = [json.loads(line) for line in lines[:: max(1, len(lines) // arguments.num_prompts)]]
    prompts = [each["prompt"] if "prompt" in each else each["turns"][0] for each in objects]
    with load(arguments.model, drafter="ngram") as llm:
        answers = answered(llm, prompts[: arguments.num_prompts], arguments.num_tokens)
        find(llm, answers, arguments.num_trials)


if __name__ == "__main__":
    checked_main(main)
