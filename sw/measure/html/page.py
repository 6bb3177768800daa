"""One HTML file that needs nothing else: what pages of figures have in common.

The body is HTML that its writer has escaped. Data go into the file as JSON, and scripts read them
with `systola.data(name)`. A content security policy forbids every connection, so that a page that
would load something from elsewhere shows that when it is tested.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape as _escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from sw.runtime.report import ReportError

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'"
_PACKAGE = "sw.measure.html"
_PLOTLY = ("plotly", "package_data/plotly.min.js")


def page(
    title: str,
    body: str,
    scripts: Sequence[str] = (),
    data: Mapping[str, Any] | None = None,
    *,
    styles: Sequence[str] = (),
    plotly: bool = False,
    connect: bool = False,
) -> str:
    """The text of a page.

    title: plain text, in the head and as the heading. body: HTML behind the heading. scripts:
    JavaScript sources, which run in this order when the body is there. data: what
    `systola.data(name)` returns, JSON-able, numbers finite. styles: CSS sources behind the shell's.
    plotly: put Plotly (4.8 MB) before the scripts. connect: scripts may ask the server that the
    page came from.

    CSS has the variables `--page --panel --text --muted --line --accent --mark --good --warn --bad`
    and `--series-1` … `--series-8`. JavaScript has `systola.data(name)`, `systola.colour("accent")`
    (as the theme is), `systola.onTheme(callback)`, `systola.escape(text)` and
    `systola.number(value)`. A table of class `sortable` is sorted by the buttons in its head; a
    cell's `data-value` is its key.
    """
    policy = _POLICY + "; script-src 'unsafe-inline'" + (" 'unsafe-eval'" if plotly else "")
    policy += "; connect-src 'self'" if connect else ""
    sheets = [asset(_PACKAGE, "shell.css"), *styles]
    sources = [asset(_PACKAGE, "shell.js"), *([asset(*_PLOTLY)] if plotly else []), *scripts]
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(title)}</title>",
        *(f"<style>\n{_inside(text, 'style')}\n</style>" for text in sheets),
    ]
    top = (
        f'<header class="shell"><h1>{escape(title)}</h1>'
        '<button type="button" id="theme" aria-label="Theme: as the system"></button></header>'
    )
    blocks = [_data(name, value) for name, value in (data or {}).items()]
    programs = [f"<script>\n{_inside(text, 'script')}\n</script>" for text in sources]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            *("<head>", *head, "</head>"),
            *("<body>", top, f"<main>{body}</main>", *blocks, *programs, "</body>"),
            "</html>\n",
        ]
    )


def escape(value: object) -> str:
    """`value` as text that stands for itself in HTML, in attributes with quotes too."""
    return _escape(str(value), quote=True)


def asset(package: str, name: str) -> str:
    """The text of a file that lies in a package, such as `shell.css`."""
    return files(package).joinpath(name).read_text("utf-8")


def write_page(text: str, path: Path, option: str = "--html") -> int:
    """Write a page; returns its bytes. `ReportError` if the file cannot be written."""
    encoded = text.encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded)
    except OSError as error:
        raise ReportError(f"{option} {path}: cannot write: {error.strerror}") from None
    return len(encoded)


def _data(name: str, value: Any) -> str:
    """A block of JSON; no character in it ends the block or opens a comment."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="data-{escape(name)}">{text}</script>'


def _inside(text: str, element: str) -> str:
    """A source as the content of an element, which its own end tag would end."""
    for end in (f"</{element}", "<!--"):
        if end in text.lower():
            raise ValueError(f"the source of a {element} must not have {end!r}")
    return text
