"""`corrupt`: corrupted programs on the RTL, none of which may leave its regions or hang."""

from typing import TYPE_CHECKING, Annotated

import typer

from sw.cli.options import CONFIGURATION, Configuration, JsonOption, SeedOption

if TYPE_CHECKING:
    from sw.measure.corrupted import Findings


def corrupt(
    hardware: Configuration = CONFIGURATION,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="so many programs")] = 10_000,
    seed: SeedOption = 0,
    json_file: JsonOption = None,
) -> None:
    """Run corrupted programs on the RTL: none may leave its regions, none may hang."""
    from sw.measure.corrupted import campaign
    from sw.runtime.report import write_json

    def say(found: "Findings") -> None:
        typer.echo(f"{found.seconds:6.0f} s  {found}", err=True)

    found = campaign(hardware.npu(), count, seed, say=say)
    for problem in found.problems:
        typer.echo(problem)
    typer.echo(f"{found}, {found.seconds:.0f} s")
    typer.echo(", ".join(f"{end} {number}" for end, number in found.ends.most_common()))
    if json_file is not None:
        write_json(found.to_json(), json_file)
    if not found.good:
        raise typer.Exit(1)
