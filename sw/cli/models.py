"""Commands of `systola` for models: `quantize`, `validate`."""

from pathlib import Path
from typing import Annotated

import typer

from sw.cli.main import (
    CalibOption,
    ConfigOption,
    InputOption,
    JsonOption,
    SetOption,
    app,
    chosen_config,
)
from sw.runtime.report import check_json, write_json
from sw.runtime.session import OptionError


@app.command()
def quantize(
    model: Annotated[str, typer.Argument(help="a network, path.py:function, program.pt2")],
    out: Annotated[Path, typer.Option("--out", "-o", help="file to write (.safetensors)")],
    inputs: InputOption = None,
    calibration: CalibOption = None,
) -> None:
    """Quantize a model and save it: every command that takes a MODEL takes the file too."""
    from sw.models.catalog import get_model

    network = get_model(model, inputs or (), calibration or ())
    network.stored.save(out)
    graph = network.imported().graph
    size = sum(t.nbytes for t in graph.tensors.values() if t.is_constant)
    typer.echo(
        f"{out}: {network.name} {network.shape}, {len(graph.ops)} operators, {size:,} bytes of "
        f"constants, {network.count} samples"
    )


@app.command()
def validate(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]…", help="default: every network")
    ] = None,
    config: ConfigOption = "default",
    settings: SetOption = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="samples of the free run (all)")
    ] = None,
    reference: Annotated[
        int, typer.Option("--reference", min=1, help="samples on the TOSA reference model")
    ] = 1,
    inputs: InputOption = None,
    calibration: CalibOption = None,
    json_file: JsonOption = None,
    render: Annotated[
        Path | None, typer.Option("--render", help="write the page of this file of records")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="of --render")] = Path(
        "docs/validation.md"
    ),
) -> None:
    """Compare a network on the golden model with PyTorch: PCC, top-1, every operator, TOSA."""
    if render is not None:
        from sw.measure.pages.validation import write_page

        write_page([render], out)
        return
    from sw.measure.validate import problems
    from sw.measure.validate import validate as measure
    from sw.models.catalog import model_names

    check_json(json_file)
    npu = chosen_config(config, settings)
    if (inputs or calibration) and len(models or ()) != 1:
        raise OptionError("--input and --calib go with one MODEL")
    rows, failed = [], []
    for name in models or model_names():
        row = measure(
            name,
            npu,
            limit=limit,
            reference=reference,
            inputs=inputs or (),
            calibration=calibration or (),
            say=lambda text: typer.echo(text, err=True),
        )
        rows.append(row)
        if json_file is not None:  # after each: networks take minutes
            write_json(rows, json_file)
        between = row["pcc_between"]
        typer.echo(
            f"{name}: {row['samples']} samples, PCC {row['pcc_pt2e']:.5f} with PyTorch's int8 "
            f"graph, {row['pcc_fp32']:.5f} with float"
            + ("" if between is None else f", {between:.3f} between samples")
        )
        wrong = problems(row)
        typer.echo("\n".join(f"FAIL  {text}" for text in wrong) or "PASS")
        failed += [name] if wrong else []
    if failed:
        raise typer.Exit(1)
