"""The site: it builds without a warning, says what the code says, and needs no network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.main import get_command

import oneglance
from oneglance import environment
from oneglance.cli import app
from tests.cli.processes import run_here
from tests.docs.documents import ROOT, read
from website.commands import command_reference
from website.markdown import indent_lists, redirect_links
from website.navigation import expand


class Fetched(HTMLParser):
    """Collects the addresses that a browser fetches by itself to show a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "link" and values.get("rel") in ("canonical", "prev", "next"):
            return
        name = {"link": "href", "script": "src", "img": "src", "iframe": "src"}.get(tag)
        if name and values.get(name):
            self.addresses.append(str(values[name]))


def build(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Builds as `make docs` does."""
    (options,) = re.findall(r"\$\(MKDOCS\) (build.*)", read(ROOT / "Makefile"))
    variables = {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", *options.split(), *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build("--site-dir", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_a_broken_link_and_a_page_out_of_the_navigation_end_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Index\n\n[a link](nowhere.md)\n")
    (tmp_path / "docs" / "lost.md").write_text("# Lost\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: docs\nhooks: []\nwatch: []\nnav: [index.md]\n"
    )
    done = build("--config-file", config, "--site-dir", tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr
    assert "lost.md" in done.stderr


def test_every_page_is_there_and_fetches_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    sources = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    assert {site / path.with_suffix(".html") for path in sources} <= set(pages)
    assert {site / "contributing.html", site / "changelog.html"} <= set(pages)
    for path in pages:
        addresses = Fetched(read(path)).addresses
        assert len(addresses) > 3
        for address in addresses:
            assert "//" not in address, f"{path.name} fetches {address}"
            is_there = (path.parent / address.partition("?")[0]).exists()
            assert is_there or path.name == "404.html", f"{path.name} lacks {address}"
    for style in site.rglob("*.css"):
        assert "@import" not in read(style)
        assert not re.search(r"url\([\"']?(?:https?:)?//", read(style))


def test_the_search_knows_every_kind_of_page(site: Path) -> None:
    index = json.loads(read(site / "search" / "search_index.json"))
    places = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"tutorial.html", "reference/cli.html", "reference/api.html"} <= places
    assert {"contributing.html", "decisions/005-keyed-noise.html"} <= places


def test_the_search_works_from_disk_without_a_network(site: Path, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]
    page = f"{(site / 'tutorial.html').as_uri()}?q=keyed+noise"
    done = subprocess.run(
        [browser, *options, f"--user-data-dir={tmp_path}", "--dump-dom", page],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    results = re.findall(r'href="([^"]*)"[^>]*class="md-search-result__link', done.stdout)
    assert any("decisions/005-keyed-noise.html" in address for address in results)


def test_inner_lists_stay_inner_lists(site: Path) -> None:
    page = read(site / "architecture.html")
    assert re.search(
        r"<li>\s*(?:<p>)?<code>step</code>.*?<ul>\s*<li>\s*(?:<p>)?<em>propose", page, re.S
    )


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    page = read(site / "reference" / "api.html")
    for name in set(oneglance.__all__) - {"__version__"}:
        home = getattr(oneglance, name).__module__
        identifiers = (f'id="oneglance.{name}"', f'id="{home}.{name}"')
        assert any(identifier in page for identifier in identifiers), name


def test_the_interface_of_drafters_is_in_the_reference(site: Path) -> None:
    page = read(site / "reference" / "drafter-api.html")
    for name in ("start", "propose", "observe", "close", "check", "see", "shutdown"):
        assert f'id="oneglance.drafters.base.Drafter.{name}"' in page
    assert 'id="oneglance.types.Proposal.chain"' in page
    assert 'id="oneglance.testing.check_drafter"' in page


def commands(command: object, *path: str) -> list[tuple[str, ...]]:
    below = getattr(command, "commands", {})
    return [path, *(leaf for name in below for leaf in commands(below[name], *path, name))]


@pytest.mark.parametrize("path", commands(get_command(app))[1:], ids=" ".join)
def test_the_reference_of_a_command_is_its_help(path: tuple[str, ...]) -> None:
    heading = rf"^#+ `oneglance {' '.join(path)}`\n(.*?)(?=^#|\Z)"
    found = re.search(heading, command_reference(), flags=re.MULTILINE | re.DOTALL)
    assert found is not None
    said = re.sub(r"\\(.)", r"\1", found[1])
    shown = run_here(*path, "--help").stdout
    options = re.findall(r"^  (?:-\w, )?(--?[a-z][\w-]*)", shown, flags=re.MULTILINE)
    assert set(re.findall(r"`(?:-\w, )?(--?[a-z][\w-]*)[ `]", said)) == set(options) - {"--help"}
    for default in re.findall(r"\[default: ([^];]+)", shown):
        assert " ".join(default.split()) in said


def test_the_reference_of_the_environment_is_that_of_the_code() -> None:
    text = read(ROOT / "docs" / "reference" / "cli.md")
    named = set(re.findall(r"^\| `([A-Z_]+)` \|", text, flags=re.MULTILINE))
    assert named == {
        value for name, value in vars(environment).items() if name.endswith("_VARIABLE")
    }


def test_links_are_those_of_the_site() -> None:
    pages = {"CONTRIBUTING.md": "contributing.md"}
    text = "[a](../CONTRIBUTING.md#style) [b](audit.md) [c](https://x.org/a.md) [d](#here)"
    expected = "[a](contributing.md#style) [b](audit.md) [c](https://x.org/a.md) [d](#here)"
    assert redirect_links(text, "docs/page.md", "page.md", pages) == expected
    deeper = redirect_links("[a](../../CONTRIBUTING.md)", "docs/a/b.md", "a/b.md", pages)
    assert deeper == "[a](../contributing.md)"
    top = redirect_links(
        "[a](docs/a/b.md#c) [b](LICENSE)", "CONTRIBUTING.md", "contributing.md", {}
    )
    assert top == "[a](a/b.md#c) [b](LICENSE)"


def test_lists_are_indented_and_code_is_not() -> None:
    text = "1. a\n   - b\n  2. c\n- d\n```\n   - e\n```\n   f\n   - g"
    expected = "1. a\n    - b\n    2. c\n- d\n```\n   - e\n```\n   f\n    - g"
    assert indent_lists(text) == expected


def test_a_folder_stands_for_its_pages(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    for name in ("002-b.md", "001-a.md", "data.json"):
        (tmp_path / "more" / name).touch()
    nav = [{"One": "one.md"}, {"More": [{"All": "more/"}]}]
    expected = [{"One": "one.md"}, {"More": [{"All": ["more/001-a.md", "more/002-b.md"]}]}]
    assert expand(nav, tmp_path) == expected
