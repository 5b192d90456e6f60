"""What MkDocs calls while it builds: pages that are not in docs/, and links to them.

MkDocs finds these functions by their names: https://www.mkdocs.org/user-guide/configuration/#hooks
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website.commands import command_reference
from website.markdown import indent_lists, redirect_links
from website.navigation import expand

ROOT = Path(__file__).parents[1]

ADDED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files at the top of the repository that are pages of the site, and their paths there."""

COMMANDS_MARK = "<!-- commands -->"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lets a navigation entry stand for a folder."""
    config.nav = expand(config.nav, Path(config.docs_dir))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that lie outside of docs/."""
    for source, page in ADDED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(
            File.generated(config, page, content=redirect_links(text, source, page, ADDED))
        )
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Fills in what is made of the code, and makes the page what the site's parser expects."""
    path = page.file.src_uri
    if path not in ADDED.values():
        markdown = redirect_links(markdown, f"docs/{path}", path, ADDED)
    if COMMANDS_MARK in markdown:
        markdown = markdown.replace(COMMANDS_MARK, command_reference())
    return indent_lists(markdown)
