"""One conformance test on a device: every result is computed by the NPU and read from its memory.

Constant operands are written to memory as inputs are, the compiler folds nothing, and there is no
fallback to the host.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.errors import SystolaError
from spec.isa import Engine
from spec.program import Image
from sw.compiler import compile_graph
from sw.compiler.errors import CompileError
from sw.compiler.tosa.file import load_tosa
from sw.compiler.tosa.graph import Graph
from sw.measure.conformance.expose import expose_constants
from sw.runtime.device import Device, RunResult
from sw.runtime.session import run_image

Array = NDArray[Any]


class RejectedError(SystolaError):
    """The importer refuses the graph: the right end of a negative test."""


class UnsupportedError(SystolaError):
    """The compiler cannot compile a graph that the importer took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """Results in the order of the graph's outputs; the device's figures.

    instructions: of compute and move engines, that the run executed.
    """

    outputs: list[Array]
    result: RunResult
    instructions: int


def read_graph(path: Path) -> Graph:
    """The graph of a test; `RejectedError` with the importer's reason."""
    try:
        return load_tosa(path)
    except CompileError as error:
        raise RejectedError(str(error)) from error


def execute(
    graph: Graph, names: Sequence[str], arrays: Sequence[Array], device: Device
) -> Executed:
    """Compile `graph` for the device and run it once on `arrays`, named by `names`.

    `UnsupportedError` where the compiler gives up; any other `SystolaError` is a failure.
    """
    exposed, constants = expose_constants(graph)
    values = {**_by_port(graph, names, arrays), **constants}
    try:
        image = compile_graph(exposed, device.config, fold=False)
    except CompileError as error:
        raise UnsupportedError(str(error)) from error
    outputs, result = run_image(image, values, device)
    return Executed(
        outputs=[outputs[name] for name in exposed.outputs],
        result=result,
        instructions=_worked(image, result),
    )


def _by_port(graph: Graph, names: Sequence[str], arrays: Sequence[Array]) -> dict[str, Array]:
    """Arrays by input: by name where the names are the graph's, else in order."""
    if len(names) != len(graph.inputs):
        raise SystolaError(f"{len(names)} inputs given, the graph has {', '.join(graph.inputs)}")
    known = set(names) == set(graph.inputs)
    ports = names if known else graph.inputs
    return {
        port: np.ascontiguousarray(array).reshape(graph.tensors[port].shape)
        for port, array in zip(ports, arrays, strict=True)
    }


def _worked(image: Image, result: RunResult) -> int:
    """How many compute and move instructions the run executed; `SystolaError` for none.

    On the RTL the counters, if it has them, must show that the engines of these instructions were
    busy. The golden
    model has no clock; its END completes only when every instruction before it has.
    """
    engines = [i.format.engine for i in image.instructions()]
    engines = [engine for engine in engines if engine is not Engine.FETCH]
    busy = sum(_busy(result.counters, engine) for engine in {e.name.lower() for e in engines})
    if not engines or (result.counters and not busy):
        raise SystolaError("the run executed no compute or move instruction")
    return len(engines)


def _busy(counters: Mapping[str, Mapping[str, int]], engine: str) -> int:
    return counters.get(engine, {}).get("busy", 0)
