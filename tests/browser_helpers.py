"""Pages in a real browser: chromium, driven by Playwright, without a network."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

import pytest

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


def chromium() -> str:
    """The browser's program; the test is skipped where there is none."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    found = which("chromium") or which("chromium-browser") or which("google-chrome")
    if found is None:
        pytest.skip("no chromium on this machine")
    return found


@contextmanager
def opened(
    page: Path | str, theme: str = "light", width: int = 1280, arguments: tuple[str, ...] = ()
) -> Iterator[Any]:
    """The page in a browser; fails if it logs an error, throws, or asks for anything else.

    page: a file, or the address of a server, which may be asked for more. arguments: the browser's.
    """
    program = chromium()
    from playwright.sync_api import sync_playwright

    address = page.as_uri() if isinstance(page, Path) else page
    complaints: list[str] = []

    def is_foreign(request: Any) -> bool:
        if isinstance(page, Path):
            return bool(request.url != address)
        return not request.url.startswith(address)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*ARGUMENTS, *arguments])
        tab = browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme=theme,  # type: ignore[arg-type]
        )
        tab.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda r: complaints.append(r.url) if is_foreign(r) else None)
        tab.goto(address)
        yield tab
        browser.close()
    assert complaints == []
