"""Commands about programs as files: `compile`, `disasm`, `quantize`."""

from pathlib import Path
from typing import Annotated

import typer

from sw.cli.options import (
    CONFIGURATION,
    NO_DATA,
    ClockOption,
    Configuration,
    ModelData,
    SeedOption,
    ShapeOption,
)


def compile_program(
    target: Annotated[
        str, typer.Argument(metavar="KERNEL|MODEL|FILE.tosa", help="what to compile")
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="image file")] = None,
    shape: ShapeOption = None,
    hardware: Configuration = CONFIGURATION,
    seed: SeedOption = 0,
    dump_after: Annotated[
        str, typer.Option("--dump-after", help="stages to write as text, comma-separated; or all")
    ] = "",
    data: ModelData = NO_DATA,
    clock: ClockOption = None,
) -> None:
    """Compile a kernel or a model into a program image."""
    from sw.measure.targets import compile_target
    from sw.runtime.session import OptionError, check_clock
    from sw.runtime.timing import Timing

    npu = hardware.npu()
    check_clock(clock)
    stages = tuple(s for s in dump_after.split(",") if s)
    image = compile_target(target, npu, shape, seed, stages, data.supplied())
    path = out or Path(f"{image.info.get('name', target)}-{hardware.config}.systola")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
    except OSError as error:
        raise OptionError(f"--out {path}: cannot write: {error.strerror}") from None
    count = len(image.instructions())
    typer.echo(
        f"{path}: {count} instructions in {image.program.size:,} bytes, "
        f"{image.constants.size:,} bytes of constants, configuration {npu.name} {npu.digest_hex}"
    )
    for label, text in Timing.of(image, clock_mhz=clock).facts():
        typer.echo(f"  {label}: {text}")


def disasm(
    image_file: Annotated[Path, typer.Argument(metavar="IMAGE", help="program image")],
) -> None:
    """Print a program image's instructions and ports."""
    from spec.program import load_image

    image = load_image(image_file)
    typer.echo(f"; configuration {image.config.name} {image.config.digest_hex}")
    for kind, ports in (("input", image.inputs), ("output", image.outputs)):
        for port in ports:
            shape = "×".join(map(str, port.shape))
            typer.echo(f"; {kind} {port.name}: {port.dtype}[{shape}] at {port.offset:#x}")
    typer.echo(f"; constants {image.constants.size} bytes, temporary {image.temp_bytes} bytes")
    for index, instruction in image.listing():
        typer.echo(f"{index:5d}  {instruction}")


def quantize(
    model: Annotated[str, typer.Argument(help="a network, path.py:function, .pt2, .onnx, .tflite")],
    out: Annotated[Path, typer.Option("--out", "-o", help="file to write (.safetensors)")],
    data: ModelData = NO_DATA,
) -> None:
    """Quantize a model and save it as a file, which `run`, `verify` and others take as MODEL."""
    from sw.models.catalog import get_model

    network = get_model(model, data.supplied())
    network.stored.save(out)
    graph = network.imported().graph
    size = sum(t.nbytes for t in graph.tensors.values() if t.is_constant)
    typer.echo(
        f"{out}: {network.name} {network.shape}, {len(graph.ops)} operators, {size:,} bytes of "
        f"constants, {network.count} samples"
    )
