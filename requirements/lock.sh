#!/bin/sh
# Writes the versions that are installed now: what the package needs to run, and what its tests add.
# Usage: requirements/lock.sh PYTHON
set -eu
python=$1
here=$(dirname "$0")
"$python" - "$here" <<'PY'
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

here = Path(sys.argv[1])
DEV = ["axe-playwright-python", "fastapi", "hypothesis", "import-linter", "llguidance", "mypy", "openai", "playwright", "prometheus-client", "pytest", "pytest-cov", "pytest-timeout", "pytest-xdist", "ruff", "safetensors", "schemathesis", "torch", "uvicorn"]
BUILD = ["scikit-build-core", "nanobind", "cmake", "ninja"]


def closure(names: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    queue = list(names)
    while queue:
        name = re.sub(r"[-_.]+", "-", queue.pop()).lower()
        if name in found:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        found[name] = package.version.partition("+")[0]  # of whatever build there is
        for requirement in map(Requirement, package.requires or []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                queue.append(requirement.name)
    return found


def write(file: str, heading: str, packages: dict[str, str]) -> None:
    lines = [f"{name}=={version}" for name, version in sorted(packages.items())]
    (here / file).write_text("\n".join([heading, *lines]) + "\n")


def names(requirements: list[str]) -> list[str]:
    return [Requirement(line).name for line in requirements]


settings = tomllib.loads((here.parent / "pyproject.toml").read_text())
run = closure(names(settings["project"]["dependencies"]))
docs = closure(names(settings["dependency-groups"]["docs"]))
dev = {name: version for name, version in closure(DEV).items() if name not in run}
write("run.txt", "# What oneglance needs to run. Written by `make lock`.", run)
write("build.txt", "# What compiling the native engine needs. Written by `make lock`.", closure(BUILD))
write("docs.txt", "# What building the documentation site needs besides. Written by `make lock`.", {name: version for name, version in docs.items() if name not in run})
write("dev.txt", "# What its tests and checks need besides. Written by `make lock`.", dev)
PY
