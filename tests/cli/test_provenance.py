from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from oneglance.cli.provenance import git_is_modified, git_revision, provenance
from oneglance.machine import cpu_name


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_the_commit_and_whether_the_package_differs_from_it(checkout: Path) -> None:
    package = checkout / "package"
    assert git_revision(package) == git(checkout, "rev-parse", "HEAD")
    (checkout / "notes.txt").write_text("outside the package")
    assert git_is_modified(package) is False
    (package / "__init__.py").write_text("x = 1\n")
    assert git_is_modified(package) is True


def test_a_package_installed_below_another_checkout_is_not_of_it(checkout: Path) -> None:
    installed = checkout / "site-packages"
    installed.mkdir()
    (installed / "__init__.py").write_text("")
    assert git_revision(installed) is None
    assert git_is_modified(installed) is None


def test_without_git_there_is_no_revision(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_revision(checkout / "package") is None


def test_the_processor_has_a_name(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: other\n")
    assert cpu_name(cpuinfo) == "Some CPU @ 2 GHz"
    assert cpu_name(tmp_path / "missing")


def test_facts_are_plain_values() -> None:
    facts = provenance("oneglance demo")
    assert facts["command"] == "oneglance demo"
    assert all(isinstance(value, str | int | None) for value in facts.values())
