"""The command `systola sensitivity`."""

from typing import Annotated, Any

import typer

from sw.cli.options import CONFIGURATION, NO_DATA, Configuration, JsonOption, ModelData
from sw.cli.output import progress


def sensitivity(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="network, path.py:function, .pt2, .onnx, .tflite")
    ],
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="samples")] = None,
    most: Annotated[int, typer.Option("--layers", min=1, help="layers to list")] = 20,
    data: ModelData = NO_DATA,
    hardware: Configuration = CONFIGURATION,
    json_file: JsonOption = None,
) -> None:
    """Say what each layer costs in accuracy: PCC and SQNR with only that layer in integers."""
    from spec.names import did_you_mean
    from sw.models.table import NETWORKS
    from sw.models.transformer_table import TRANSFORMERS
    from sw.models.user import is_module
    from sw.models.wide.table import WIDE
    from sw.runtime.report import write_json
    from sw.runtime.session import OptionError

    known = (*TRANSFORMERS, *NETWORKS, *WIDE)
    if model not in known and not is_module(model):
        raise OptionError(
            f"model {model!r}: no such network{did_you_mean(model, known)}; "
            f"networks are {', '.join(known)}"
        )
    from sw.measure.sensitivity import sensitivity as measure

    with progress() as say:
        row = measure(model, limit=limit, supplied=data.supplied(), config=hardware.npu(), say=say)
        if json_file is not None:
            write_json(row, json_file)
        say(_text(row, most))


def _text(row: dict[str, Any], most: int) -> str:
    lines = [f"{'1 − PCC':>10}  {'share':>6}  {'SQNR dB':>7}  {'width':5}  layer"]
    for layer in row["layers"][:most]:
        lost = 1 - layer["pcc"]
        share = lost / row["lost"] if row["lost"] else 0.0
        name = f"{layer['name']} ({layer['module']})" if layer["module"] else layer["name"]
        lines.append(
            f"{lost:10.6f}  {share:6.1%}  {layer['sqnr']:7.1f}  {layer['width']:5}  {name}"
        )
    left = len(row["layers"]) - most
    if left > 0:
        rest = sum(1 - layer["pcc"] for layer in row["layers"][most:])
        lines.append(f"{rest:10.6f}  {rest / row['lost'] if row['lost'] else 0:6.1%}  {left} more")
    lines.append(
        f"{row['model']}: one layer in integers at a time, the others float, "
        f"{row['layer_samples']} samples; the losses sum to {row['lost']:.5f}"
    )
    lines.append(
        f"all in integers: PCC with float {row['pcc']:.5f} (least {row['pcc_least']:.5f}) over "
        f"{row['samples']} samples, {row['cycles']:,} predicted cycles on {row['config']}"
    )
    lines.append(f"policy {row['policy']}: {row['reason']}")
    return "\n".join(lines)
