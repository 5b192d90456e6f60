"""Schemathesis against the server's OpenAPI schema: it makes requests of it, and checks answers."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.load.own_server import SERVED_NAME

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)
"""What is checked of each answer. That all valid data is accepted is not: a schema cannot say that
min_tokens is at most max_tokens, or what a chat template refuses."""
PHASES = ("examples", "coverage", "fuzzing")
REQUEST_SECONDS = 120
SCHEMA_SECONDS = 30.0


@dataclass(frozen=True)
class OpenApiReport:
    """What it did and found.

    Attributes:
        version: of Schemathesis.
        operations: of the schema, each with a method and a path.
        cases: requests that it made.
        problems: failures and errors, in words.
    """

    version: str
    operations: int
    cases: int
    problems: list[str]


def run_schemathesis(
    url: str, most_examples: int, seed: int, phases: Sequence[str] = PHASES
) -> OpenApiReport:
    """Has it test every operation.

    Args:
        url: of the server's root.
        most_examples: random requests for each operation.
        seed: of its choices.
        phases: of its tests: what stands in the schema, the edges of every field, random requests.
    """
    with tempfile.TemporaryDirectory() as folder:
        schema, written = Path(folder) / "openapi.json", Path(folder) / "report.json"
        schema.write_text(json.dumps(with_model(_fetch(url))), encoding="utf-8")
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "--no-color", "run", str(schema)),
            *("--url", url, "--checks", ",".join(CHECKS), "--phases", ",".join(phases)),
            *("--max-examples", str(most_examples), "--seed", str(seed), "--no-shrink"),
            *("--request-timeout", str(REQUEST_SECONDS), "--continue-on-failure"),
            *("--suppress-health-check", "all", "--generation-database", "none"),
            *("--report", "json", "--report-json-path", str(written)),
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if not written.exists():
            return OpenApiReport("", 0, 0, [f"it made no report: {done.stderr[-500:]}"])
        return read_report(json.loads(written.read_text(encoding="utf-8")))


def with_model(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the one name that the model has, so that random requests reach it."""
    for path in schema["paths"].values():
        body = path.get("post", {}).get("requestBody")
        if body is not None:
            properties = body["content"]["application/json"]["schema"]["properties"]
            properties["model"] = {"type": "string", "enum": [SERVED_NAME]}
    return schema


def read_report(report: Mapping[str, Any]) -> OpenApiReport:
    """What its own report says."""
    problems = [json.dumps(each) for each in (*report["failures"], *report["errors"])]
    if not report["complete"]:
        problems.append(f"it did not come to its end: {report['stop_reason']}")
    operations = report["operations"] or {"tested": 0}
    return OpenApiReport(
        report["schemathesis_version"],
        operations["tested"],
        report["test_cases"]["generated"],
        problems,
    )


def _fetch(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/openapi.json", timeout=SCHEMA_SECONDS) as response:
        schema: dict[str, Any] = json.load(response)
        return schema
