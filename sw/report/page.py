"""The page as one HTML file: the shell, the body, the scripts and Plotly's own script, the data."""

from pathlib import Path

from sw.measure.html import asset, page
from sw.report.data import ReportData
from sw.report.errors import ReportError
from sw.report.payload import payload

SCRIPTS = (
    *("core", "colours", "tables", "pareto", "advice", "dialog", "figure", "scatter", "parallel"),
    *("machine", "points", "regression", "live", "main"),
)
"""Files of `assets/`, in the order in which they run."""
_PACKAGE = "sw.report"


def write_page(data: ReportData, out: Path) -> None:
    """Write the page of `data` to `out`, whose folder is made."""
    temporary = out.with_name(f".{out.name}.{id(data):x}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_text(render(data), encoding="utf-8")
            temporary.replace(out)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ReportError(f"--out {out}: cannot write: {error.strerror}") from None


def render(data: ReportData, *, live: bool = False) -> str:
    """The page as text. live: it asks the server that it came from for newer data."""
    return page(
        f"{data.title or 'No campaign yet'} · Systola",
        asset(_PACKAGE, "assets/page.html"),
        [asset(_PACKAGE, f"assets/{name}.js") for name in SCRIPTS],
        {"report": payload(data), "live": live},
        styles=[asset(_PACKAGE, "assets/page.css")],
        plotly=True,
        connect=live,
    )
