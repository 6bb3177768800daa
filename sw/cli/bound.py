"""`systola bound`: a compiled network against the layer bound, without the RTL."""

from typing import Annotated

import typer

from sw.cli.options import (
    CONFIGURATION,
    NO_DATA,
    ClockOption,
    Configuration,
    JsonOption,
    ModelData,
    ShapeOption,
)
from sw.cli.output import console


def bound(
    target: Annotated[
        str, typer.Argument(metavar="KERNEL|MODEL|FILE.tosa", help="what to compile")
    ],
    shape: ShapeOption = None,
    hardware: Configuration = CONFIGURATION,
    data: ModelData = NO_DATA,
    clock: ClockOption = None,
    losses: Annotated[
        int, typer.Option("--losses", min=0, help="how many of the largest losses to explain")
    ] = 5,
    json_file: JsonOption = None,
) -> None:
    """Compare predicted cycles with the layer bound and say which layers lose most, and why."""
    from sw.measure.bound.report import bound_json, bound_target, print_bound
    from sw.runtime.report import write_json
    from sw.runtime.session import check_clock

    check_clock(clock)
    found = bound_target(target, shape, hardware.npu(), data.supplied(), clock)
    print_bound(found, losses, console(140))
    if json_file is not None:
        write_json(bound_json(found, losses), json_file)
