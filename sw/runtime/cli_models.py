"""Commands of `systola` for models: `quantize`."""

from pathlib import Path
from typing import Annotated

import typer

from sw.runtime.cli import CalibOption, InputOption, app


@app.command()
def quantize(
    model: Annotated[str, typer.Argument(help="a network, path.py:function, program.pt2")],
    out: Annotated[Path, typer.Option("--out", "-o", help="file to write (.safetensors)")],
    inputs: InputOption = None,
    calibration: CalibOption = None,
) -> None:
    """Quantize a model and save it: every command that takes a MODEL takes the file too."""
    from sw.runtime.models import get_model

    network = get_model(model, inputs or (), calibration or ())
    network.stored.save(out)
    graph = network.imported().graph
    size = sum(t.nbytes for t in graph.tensors.values() if t.is_constant)
    typer.echo(
        f"{out}: {network.name} {network.shape}, {len(graph.ops)} operators, {size:,} bytes of "
        f"constants, {network.count} samples"
    )
