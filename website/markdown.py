"""From Markdown as GitHub reads it to Markdown as the site's parser does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from posixpath import dirname, join, normpath, relpath

FENCE = re.compile(r"^ *(?:```|~~~)")
ITEM = re.compile(r"^ {1,3}(?=(?:[-*+]|\d+\.) )")
LINK = re.compile(r"(?<=\]\()(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?(?=\))")


def indent_lists(text: str) -> str:
    """Indents items of inner lists by four, as the site's parser wants them.

    GitHub takes an item as the child of the one above if it stands below its text, which may be
    two or three spaces. Code is left as it is.
    """
    lines, is_code = [], False
    for line in text.split("\n"):
        if FENCE.match(line):
            is_code = not is_code
        lines.append(line if is_code else ITEM.sub("    ", line))
    return "\n".join(lines)


def redirect_links(text: str, source: str, destination: str, pages: Mapping[str, str]) -> str:
    """Mends the links of a page that the site has in another place than the repository.

    Args:
        text: Markdown of the page.
        source: path of the page in the repository, such as "docs/audit.md".
        destination: its path in the site, such as "audit.md".
        pages: for files outside of docs/ that are pages of the site, their paths there.

    Returns:
        The text; links to the web and to files that are no pages are as they were.
    """

    def mended(link: re.Match[str]) -> str:
        target = link["target"]
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        path = normpath(join(dirname(source), target))
        page = pages.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        if page is None:
            return link[0]
        return relpath(page, dirname(destination) or ".") + (link["anchor"] or "")

    return LINK.sub(mended, text)
