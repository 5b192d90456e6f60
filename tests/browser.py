"""A headless Chromium for tests of pages, and where pictures of them go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
FOLDER_VARIABLE = "SCREENSHOTS_DIR"
"""Where whoever looks at the pages wants their pictures; unset: nowhere for good."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; skips the test where there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("No Chromium is installed; install one with `apt-get install chromium`.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found)
        yield browser
        browser.close()


def hear_complaints(page: Page, complaints: list[str]) -> None:
    """Collects what the browser has to say against a page."""

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: complaints.append(str(error)))


def take_picture(page: Page, name: str, fallback: Path) -> Path:
    """A picture of the whole page, for a person to look at."""
    folder = Path(os.environ.get(FOLDER_VARIABLE) or fallback)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    page.screenshot(path=path, full_page=True)
    return path
