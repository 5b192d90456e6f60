"""How many passes certain tokens save in constrained answers: counts, no times.

    python -m benchmarks.structured_output [--model M] [--drafter D ...] [--max-tokens N]
        [--json FILE]

Each request is answered greedily by plain decoding (drafter none) and with each drafter; the
tokens must be the same. Printed are tokens per pass, and of the tokens the share that was certain.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import oneglance
from oneglance.bench.subject import without_folders
from oneglance.cli.provenance import provenance
from oneglance.completion import Completion
from oneglance.config import SamplingParams
from oneglance.constraints import Constraint
from oneglance.llm import LLM


def _object(**properties: object) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


TEXT = {"type": "string", "maxLength": 60}
COUNT = {"type": "integer", "minimum": 0, "maximum": 9999}
SCHEMAS: dict[str, tuple[str, dict[str, Any]]] = {
    "person": (
        "Invent a person and describe them as JSON.",
        _object(name=TEXT, age=COUNT, city={"enum": ["Berlin", "Bern", "Paris", "Oslo"]}),
    ),
    "product": (
        "Describe a lamp of your shop as JSON.",
        _object(
            product_name=TEXT,
            price_in_euros=COUNT,
            availability={"enum": ["in stock", "sold out", "on order"]},
            delivery_time_in_days=COUNT,
        ),
    ),
    "weather call": (
        "What is the weather in Rome tomorrow? Answer with a function call as JSON.",
        _object(
            function={"const": "get_weather_forecast"},
            arguments=_object(
                location=TEXT,
                number_of_days=COUNT,
                temperature_unit={"enum": ["celsius", "fahrenheit"]},
            ),
        ),
    ),
    "review": (
        "Judge this review as JSON: The film was far too long, but the music was lovely.",
        _object(
            sentiment={"enum": ["positive", "negative", "mixed"]},
            confidence_in_percent=COUNT,
            mentioned_aspects={"type": "array", "items": TEXT, "maxItems": 3},
        ),
    ),
}
FORMATS = {
    "any white space": {},
    "no white space": {"x-guidance": {"whitespace_flexible": False}},
}


@dataclass(frozen=True)
class Row:
    """What one drafter made of all requests of a format.

    Attributes:
        format: of the JSON.
        drafter: its name.
        tokens: delivered.
        passes: of the target.
        certain: tokens that were drafted because nothing else was allowed.
    """

    format: str
    drafter: str
    tokens: int
    passes: int
    certain: int

    def __str__(self) -> str:
        return (
            f"{self.format:<16} {self.drafter:<24} {self.tokens:>6} tokens {self.passes:>6} passes "
            f"{self.tokens / self.passes:>6.2f} tokens a pass {self.certain / self.tokens:>5.0%} "
            "certain"
        )


def measure(llm: LLM, drafters: Sequence[str], max_tokens: int) -> list[Row]:
    """Counts of each drafter in each format; plain decoding comes first."""
    rows: list[Row] = []
    for form, options in FORMATS.items():
        expected: list[tuple[int, ...]] = []
        for drafter in ("none", *drafters):
            answers = [
                llm.generate(prompt, params=_params(schema | options, max_tokens), drafter=drafter)
                for prompt, schema in SCHEMAS.values()
            ]
            tokens = [answer.token_ids for answer in answers]
            expected = expected or tokens
            assert tokens == expected, f"{drafter} changed an answer"
            rows.append(_row(form, drafter, answers))
            print(rows[-1], flush=True)
    return rows


def _params(schema: dict[str, Any], max_tokens: int) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, constraint=Constraint.json_schema(schema))


def _row(form: str, drafter: str, answers: Sequence[Completion]) -> Row:
    return Row(
        format=form,
        drafter=drafter,
        tokens=sum(len(answer.tokens) for answer in answers),
        passes=sum(answer.stats.passes for answer in answers),
        certain=sum(token.drafter == "grammar" for each in answers for token in each.tokens),
    )


def main() -> None:
    """Reads the command line, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--drafter", nargs="*", default=["grammar", "suffix", "auto"])
    parser.add_argument("--max-tokens", type=int, default=160)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with oneglance.load(options.model, drafter="none") as llm:
        rows = measure(llm, options.drafter, options.max_tokens)
    if options.json is not None:
        command = shlex.join(["python", "-m", "benchmarks.structured_output", *sys.argv[1:]])
        origin = provenance(without_folders(command))
        table = {**origin, "model": options.model, "rows": [vars(row) for row in rows]}
        options.json.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
