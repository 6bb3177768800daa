"""What the command line does with a TOSA flatbuffer: compile it, run it on arrays of integers."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.program import Image, Port
from sw.compiler import compile_graph
from sw.compiler.tosa.file import load_tosa
from sw.runtime.arrays import load_as
from sw.runtime.report import Report
from sw.runtime.session import (
    Arrays,
    DeviceOptions,
    OptionError,
    random_inputs,
    run_program,
    save_outputs,
)


def is_tosa(name: str) -> bool:
    """Whether `name` has the form of a TOSA file."""
    return name.endswith(".tosa")


def refuse_options(name: str, **options: object) -> None:
    """`OptionError` for an option that was given and does not go with a TOSA file."""
    for option, value in options.items():
        if value is not None and value != ():
            raise OptionError(f"--{option}: {name} is a graph of integers; leave it out")


def compile_tosa(path: Path, config: NpuConfig, *, dump_after: Iterable[str] = ()) -> Image:
    """The program image of a TOSA file, named after it."""
    graph = load_tosa(path)
    return compile_graph(graph, config, dump_after=dump_after, info={"source": str(path)})


def run_tosa(
    path: Path,
    files: Sequence[Path],
    config: NpuConfig,
    options: DeviceOptions,
    verify: bool = False,
    out: Path | None = None,
) -> Report:
    """Compile a TOSA file and run it once; the RTL is compared with the golden model.

    files: `.npy` in the order of the graph's inputs, or each as NAME=file; inputs without a file
    are random. verify: compare with the TOSA reference model too. out: folder for the outputs.
    """
    graph = load_tosa(path)
    image = compile_graph(graph, config, info={"source": str(path)})
    arrays = read_inputs(image, files, options.seed)
    report, outputs = run_program(image, arrays, config, options, graph if verify else None)
    if out is not None:
        save_outputs(outputs, out)
    return report


def read_inputs(image: Image, files: Sequence[Path], seed: int) -> Arrays:
    """An array for every input port; `OptionError` names the file that does not fit."""
    ports = {port.name: port for port in image.inputs}
    arrays = random_inputs(image, seed)
    unnamed = iter(image.inputs)
    for file in files:
        name, equals, rest = str(file).partition("=")
        if equals and name in ports:
            arrays[name] = _read(Path(rest), ports[name])
            continue
        port = next(unnamed, None)
        if port is None:
            known = ", ".join(ports) or "none"
            raise OptionError(f"--input {file}: the graph has {len(ports)} inputs: {known}")
        arrays[port.name] = _read(file, port)
    return arrays


def _read(file: Path, port: Port) -> NDArray[Any]:
    where = f"--input {file}"
    return load_as(file, port.dtype, port.shape, where=where, takes=f"input {port.name}")
