"""`systola calibrate`: predicted cycles against the RTL's, on configurations drawn at random."""

from pathlib import Path
from typing import Annotated

import typer

from sw.cli.output import console, progress


def calibrate(
    configs: Annotated[
        int, typer.Option("--configs", min=1, help="how many configurations to draw")
    ] = 40,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of what is drawn")] = 0,
    only: Annotated[str, typer.Option("--only", help="workloads, comma-separated")] = "",
    json_file: Annotated[Path, typer.Option("--json", help="rows, also to go on from")] = Path(
        "build", "calibration.json"
    ),
) -> None:
    """Compare predicted cycles with the RTL's on random configurations and all memories."""
    from sw.measure.calibration.run import calibrate as measure
    from sw.measure.calibration.samples import chosen, configurations
    from sw.measure.pages.calibration import summary
    from sw.runtime.report import check_json

    works = chosen([name for name in only.split(",") if name])
    check_json(json_file)
    with progress() as say:
        rows = measure(configurations(configs, seed), works, json_file, say)
    console().print(summary(rows))
    wrong = [row for row in rows if "error" in row]
    for row in wrong:
        typer.echo(f"{row['config']}, {row['name']}: {row['error']}")
    typer.echo(f"{json_file}: {len(rows)} rows, {len(wrong)} failed")
    if wrong:
        raise typer.Exit(1)
