"""The command `systola accuracy`."""

from typing import Annotated, Any

import typer

from sw.cli.options import CONFIGURATION, NO_DATA, Configuration, JsonOption, ModelData
from sw.cli.output import progress


def accuracy(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]…",
            help="networks, path.py:function, .pt2, .onnx, .tflite (every transformer)",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="samples")] = None,
    rows: Annotated[
        str, typer.Option("--rows", help="scales by row: auto, never or always")
    ] = "auto",
    data: ModelData = NO_DATA,
    layers: Annotated[bool, typer.Option("--layers", help="PCC of every value")] = False,
    device: Annotated[
        str, typer.Option("--device", "-d", help="none, golden, or rtl: the first sample")
    ] = "none",
    hardware: Configuration = CONFIGURATION,
    json_file: JsonOption = None,
) -> None:
    """Compare the integers of models with their float modules: PCC, cosine, by layer."""
    from spec.names import did_you_mean
    from sw.models.table import NETWORKS
    from sw.models.transformer_table import TRANSFORMERS
    from sw.models.user import is_module
    from sw.models.wide.table import WIDE
    from sw.runtime.report import write_json
    from sw.runtime.session import DEVICES, DeviceOptions, OptionError

    if rows not in ("auto", "never", "always"):
        raise OptionError(f"--rows {rows}: must be auto, never or always")
    if device not in ("none", *DEVICES):
        raise OptionError(f"--device {device}: must be none, golden or rtl")
    names = models or [n for n, spec in TRANSFORMERS.items() if spec.weights == "random"]
    for name in names:
        known = (*TRANSFORMERS, *NETWORKS, *WIDE)
        if name not in known and not is_module(name):
            raise OptionError(
                f"model {name!r}: no such network{did_you_mean(name, known)}; "
                f"networks are {', '.join(known)}"
            )
    from sw.measure.accuracy import measure

    npu = None if device == "none" else hardware.npu()
    options = None if device == "none" else DeviceOptions(device=device)
    found, wrong = [], False
    with progress() as say:
        for name in names:
            row = measure(
                name,
                limit=limit,
                supplied=data.supplied(),
                rows=rows,  # type: ignore[arg-type]  # checked above
                config=npu,
                options=options,
                layers=layers,
                say=say,
            )
            found.append(row)
            if json_file is not None:  # after each: networks take minutes
                write_json(found, json_file)
            say(_text(row))
            wrong |= False in (row.get("device_exact"), row.get("bit_exact"))
    if wrong:
        raise typer.Exit(1)


def _text(row: dict[str, Any]) -> str:
    lines = [
        f"{layer['pcc']:9.5f}  {layer['dtype']:5}  {layer['node']}"
        for layer in row.get("layers", ())
    ]
    between = ", ".join(f"{v:.3f}" for v in row["pcc_between"])
    text = (
        f"{row['model']}: {row['samples']} samples, PCC with float "
        f"{', '.join(f'{v:.5f}' for v in row['pcc'])} (least {row['pcc_least']:.5f}), cosine "
        f"{', '.join(f'{v:.5f}' for v in row['cosine'])}, {row['operators']} operators"
    )
    text += f"; PCC between samples {between}" if between else ""
    if "embedding_cosine" in row:
        text += (
            f"; cosine of embeddings {row['embedding_cosine']:.5f} "
            f"(least {row['embedding_least']:.5f})"
        )
        if row["embedding_between"]:
            text += f", between neighbours at most {max(row['embedding_between']):.3f}"
    if "device_exact" in row:
        text += "; golden " + ("bit-exact" if row["device_exact"] else "DIFFERS")
    if "bit_exact" in row:
        verdict = "bit-exact" if row["bit_exact"] else "DIFFERS"
        text += f"; RTL {verdict} in {row['elements']:,} elements, {row['cycles']:,} cycles"
    return "\n".join([*lines, text])
