"""What a way through a door ends in: one program, and results to compare with its."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.errors import SystolaError
from spec.program import Image
from sw.compiler.frontend.compile_module import CompiledModule
from sw.compiler.frontend.ports import ModelPort, dequantize_output, quantize_input
from sw.compiler.tosa.graph import Graph
from sw.frontends.delegates.delegate import Delegate
from sw.torch_backend.compiled_part import Part

Array = NDArray[Any]
Function = Callable[[Array], Array]
"""Of a batch of images, float32, to their logits."""


class DoorsError(SystolaError, ValueError):
    """A measurement that cannot be made, or that another result contradicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program of one input and one output, and the TOSA graph that it was compiled of."""

    graph: Graph
    image: Image
    source: ModelPort
    result: ModelPort

    def inputs(self, x: Array) -> dict[str, Array]:
        """The program's integers for the model's float input."""
        return {self.source.name: quantize_input(self.source, x)}

    def output(self, arrays: dict[str, Array]) -> Array:
        """The program's integers as the model's float output."""
        return dequantize_output(self.result, arrays[self.result.name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A model that went through a door.

    call: the model as a user of the door calls it. own: what the framework itself computes, of the
    model that was given to the door. prepare: from the images that `call` and `own` take to the
    input of the program.
    """

    program: Program
    call: Function
    own: Function
    prepare: Function = np.asarray


def of_module(compiled: CompiledModule) -> Program:
    """The program of `systola.compile`."""
    (source,), (result,) = compiled.imported.inputs, compiled.imported.outputs
    graph = compiled.imported.graph
    return Program(graph=graph, image=compiled.image, source=source, result=result)


def of_parts(parts: list[Any], door: str) -> Program:
    """The program of the only part that `torch.compile` or a partitioner has made."""
    part = _only(parts, door)
    if not isinstance(part, Part):
        raise DoorsError(f"{door}: a kernel of the language, no part of the graph")
    (source,), (result,) = part.compiled.imported.inputs, part.compiled.imported.outputs
    made = part.compiled
    return Program(graph=made.imported.graph, image=made.image, source=source, result=result)


def of_delegates(delegates: list[Delegate], door: str) -> Program:
    """The program of the only delegate, whose graph is known."""
    delegate = _only(delegates, door)
    (source,), (result,) = delegate.payload.inputs, delegate.payload.outputs
    if delegate.graph is None:
        raise DoorsError(f"{door}: a stored program, whose graph is not known")
    return Program(
        graph=delegate.graph, image=delegate.payload.image, source=source.port, result=result.port
    )


def _only(items: list[Any], door: str) -> Any:
    if len(items) != 1:
        raise DoorsError(f"{door}: the network became {len(items)} programs, not one")
    return items[0]
