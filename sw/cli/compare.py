"""Commands that compare a model with what it must equal: `verify`, `validate`, `diff`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sw.cli.options import (
    CONFIGURATION,
    NO_DATA,
    ON_GOLDEN,
    Configuration,
    JsonOption,
    Machine,
    ModelData,
    SeedOption,
    ShapeOption,
)
from sw.cli.output import console, progress


def verify(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="[KERNEL|MODEL]…", help="default: all of them")
    ] = None,
    shape: ShapeOption = None,
    hardware: Configuration = CONFIGURATION,
    seed: SeedOption = 0,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="samples of a model")] = 8,
    data: ModelData = NO_DATA,
    json_file: JsonOption = None,
) -> None:
    """Compare the golden model with the TOSA reference model on the compiler's own graph."""
    from sw.frontends.executorch.identify import is_executorch
    from sw.measure.targets import all_targets, is_model, verify_target
    from sw.runtime.report import write_json
    from sw.runtime.verify import reference_version

    npu = hardware.npu()
    names = targets or all_targets()
    for name in names:
        is_model(name, shape)
    typer.echo(f"tosa-tools {reference_version()}, configuration {npu.name} {npu.digest_hex}")
    reports = []
    with progress() as say:
        for name in names:
            say(f"{name}: golden model and TOSA reference model…")
            config = hardware.given() if is_executorch(name) else npu
            report = verify_target(name, config, shape, seed, limit, data.supplied())
            reports.append(report)
            where = "" if report.config == npu else f" on {report.config.name}"
            say(f"{name} {report.shape}{where}: {' '.join(report.verdict())}")
    if json_file is not None:
        facts = [r.to_json() for r in reports]
        write_json(facts if len(facts) > 1 else facts[0], json_file)
    failed = [r.name for r in reports if r.failed]
    typer.echo(f"{len(reports)} verified, {len(failed)} failed {' '.join(failed)}".rstrip())
    if failed:
        raise typer.Exit(1)


def validate(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]…", help="default: every network")
    ] = None,
    hardware: Configuration = CONFIGURATION,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="samples of the free run (all)")
    ] = None,
    reference: Annotated[
        int, typer.Option("--reference", min=1, help="samples on the TOSA reference model")
    ] = 1,
    data: ModelData = NO_DATA,
    json_file: JsonOption = None,
) -> None:
    """Compare a network on the golden model with PyTorch: PCC, top-1, every operator, TOSA."""
    from sw.measure.validate import problems
    from sw.measure.validate import validate as measure
    from sw.models.catalog import model_names
    from sw.runtime.report import write_json
    from sw.runtime.session import OptionError

    npu = hardware.npu()
    supplied = data.supplied()
    if (supplied.inputs or supplied.calibration) and len(models or ()) != 1:
        raise OptionError("--input and --calib go with one MODEL")
    rows, failed = [], []
    with progress() as say:
        for name in models or model_names():
            row = measure(
                name,
                npu,
                limit=limit,
                reference=reference,
                supplied=supplied,
                say=say,
            )
            rows.append(row)
            if json_file is not None:  # after each: networks take minutes
                write_json(rows, json_file)
            say(_validated(row))
            wrong = problems(row)
            say("\n".join(f"FAIL  {text}" for text in wrong) or "PASS")
            failed += [name] if wrong else []
    if failed:
        raise typer.Exit(1)


def _validated(row: Mapping[str, Any]) -> str:
    int8, between = row["pcc_pt2e"], row["pcc_between"]
    figures = "" if int8 is None else f"{int8:.5f} with PyTorch's int8 graph, "
    figures += f"{row['pcc_fp32']:.5f} with float"
    figures += "" if between is None else f", {between:.3f} between samples"
    return f"{row['name']}: {row['samples']} samples, policy {row['policy']}; PCC {figures}"


def diff(
    model: Annotated[str, typer.Argument(help="a model, path.py:function, .pt2, .onnx, .tflite")],
    fed: Annotated[
        bool, typer.Option("--fed", help="each layer on PyTorch's integers, not on the NPU's")
    ] = False,
    lsb: Annotated[
        int | None, typer.Option("--lsb", help="tolerance: largest difference (--fed: 1)")
    ] = None,
    share: Annotated[
        float | None, typer.Option("--share", help="tolerance: differing elements (--fed: 0.001)")
    ] = None,
    sqnr: Annotated[
        float | None, typer.Option("--sqnr", help="tolerance: least SQNR in dB (free-running: 20)")
    ] = None,
    data: ModelData = NO_DATA,
    hardware: Configuration = CONFIGURATION,
    machine: Machine = ON_GOLDEN,
    json_file: JsonOption = None,
) -> None:
    """Compare a model with PyTorch's graph, layer by layer; name the first that differs."""
    from sw.measure.diff import Tolerance
    from sw.measure.diff_run import diff_model
    from sw.runtime.report import write_json

    npu = hardware.npu()
    options = machine.options()
    given = Tolerance(lsb=lsb, share=share, sqnr_db=sqnr)
    found = diff_model(
        model,
        npu,
        options,
        fed=fed,
        tolerance=None if given == Tolerance() else given,
        supplied=data.supplied(),
    )
    found.print(console())
    if json_file is not None:
        write_json(found.to_json(), json_file)
    if found.first is not None:
        raise typer.Exit(1)
