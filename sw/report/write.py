"""`write_report`: campaigns of a database as a page, in one call."""

from collections.abc import Sequence
from pathlib import Path

from sw.report.data import ReportData
from sw.report.page import write_page
from sw.report.source import load


def write_report(
    where: str | Path, out: Path, wanted: Sequence[str] = (), *, kind: str = "", name: str = ""
) -> ReportData:
    """Write the page of campaigns of the database `where` to `out`; see `source.load`.

    Returns its data. The file is there whole or not at all. `ReportError` if it cannot be written.
    """
    data = load(where, wanted, beside=out.parent, kind=kind, name=name)
    write_page(data, out)
    return data
