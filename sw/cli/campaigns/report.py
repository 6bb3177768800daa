"""`systola report` and `systola serve`: the results of campaigns as a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sw.cli.options import RESULTS, DatabaseOption

if TYPE_CHECKING:
    from sw.report.data import ReportData

CampaignsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[CAMPAIGN]...",
        help="numbers or names; without any the latest sweep and the latest regression",
    ),
]


def report(
    campaigns: CampaignsArgument = None,
    database: DatabaseOption = RESULTS,
    out: Annotated[Path, typer.Option("--out", "-o", help="the page")] = Path("report.html"),
    workload: Annotated[
        str, typer.Option("--workload", "-w", help="the advice is for it (the mean of all)")
    ] = "",
    at_most: Annotated[
        float | None, typer.Option("--at-most", min=0, help="kGE of the fastest point")
    ] = None,
    at_least: Annotated[
        float | None, typer.Option("--at-least", min=0, help="inferences/s of the smallest point")
    ] = None,
) -> None:
    """Write campaigns as one HTML page: fronts, tables, history, failures; print its advice."""
    from sw.report.write import write_report

    data = write_report(database, out, campaigns or ())
    for line in _advice(data, workload, at_most, at_least):
        typer.echo(line)
    points = f"{len(data.points):,} points, " if data.points else ""
    typer.echo(f"{out}: {points}{len(data.failures):,} runs that are not good")


def _advice(
    data: "ReportData", workload: str, at_most: float | None, at_least: float | None
) -> list[str]:
    from spec.names import did_you_mean
    from sw.report.advice import advise
    from sw.report.data import MEAN
    from sw.runtime.session import OptionError

    if workload and workload not in data.workloads:
        hint = did_you_mean(workload, data.workloads)
        known = ", ".join(data.workloads) or "none"
        raise OptionError(f"--workload {workload}: not in these campaigns{hint}; there is {known}")
    if not any(point.measurements for point in data.points):
        return []
    answers = advise(data, workload or MEAN, at_most=at_most, at_least=at_least)
    return [answer.text for answer in answers]


def serve(
    campaigns: CampaignsArgument = None,
    database: DatabaseOption = RESULTS,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one")] = 0,
    host: Annotated[str, typer.Option("--host", help="address to listen on")] = "127.0.0.1",
) -> None:
    """Serve the same page live while campaigns run; it ends with Ctrl-C."""
    from sw.report.server import Server
    from sw.report.source import load

    wanted = campaigns or ()
    load(database, wanted)  # a wrong name is told here rather than in the page
    with Server(lambda: load(database, wanted), host, port) as server:
        typer.echo(f"serving {database} at {server.url} (Ctrl-C ends it)")
        server.serve_forever(poll_interval=0.2)


def write_beside(database: str, kind: str, name: str, folder: Path | None = None) -> None:
    """Write the page of the latest campaign of that name: `report.html` in `folder`.

    folder: `NAME` beside the database's file if it is None. A page that cannot be written is told
    and changes nothing else: the results are in the database.
    """
    from spec.errors import SystolaError
    from sw.report.write import write_report
    from sw.results.location import locate

    if folder is None:
        folder = (locate(database).path or Path(RESULTS)).parent / name
    try:
        write_report(database, folder / "report.html", kind=kind, name=name)
    except SystolaError as error:
        typer.echo(f"no page: {error}", err=True)
    else:
        typer.echo(f"{folder / 'report.html'}: fronts, tables, history and failures as a page")
