"""`load`: from a StableHLO file to a PyTorch module with example inputs."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from sw.frontends.stablehlo.call import dtype_of
from sw.frontends.stablehlo.errors import StableHloError
from sw.frontends.stablehlo.flatten import flatten
from sw.frontends.stablehlo.fold import call_of, fold
from sw.frontends.stablehlo.graph import Graph
from sw.frontends.stablehlo.groups.recognize import recognize
from sw.frontends.stablehlo.module import StableHloModule, Step
from sw.frontends.stablehlo.narrow import narrow
from sw.frontends.stablehlo.parsing import parse
from sw.frontends.stablehlo.places import fix_places
from sw.frontends.stablehlo.stacks import stacks
from sw.frontends.stablehlo.table import ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class StableHloModel:
    """A StableHLO function for `systola.compile(model.module, model.example)`.

    example: a tensor for each argument: floats are random, integers 0. inputs: the arguments'
    names. outputs: of the results, numbered.
    """

    module: StableHloModule
    example: tuple[torch.Tensor, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def load(source: str | Path | bytes) -> StableHloModel:
    """The model of a file, or of the bytes of one. `StableHloError` says what is wrong."""
    file = "StableHLO module" if isinstance(source, bytes) else str(source)
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # PyTorch logs the traces of what becomes a StableHloError
    try:
        return _loaded(source if isinstance(source, bytes) else _bytes(Path(source)))
    except StableHloError as error:
        raise error.at(file=file) from error.__cause__
    finally:
        logging.disable(level)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StableHloError(
            f"cannot read: {error.strerror}", hint="give a file that jax.export wrote"
        ) from None


def _loaded(data: bytes) -> StableHloModel:
    contents = parse(data)
    graph = flatten(contents)
    fold(graph)
    fix_places(graph)
    stacks(graph)
    narrow(graph)
    recognize(graph)
    return StableHloModel(
        module=build(graph),
        example=tuple(_example(graph, value, i) for i, value in enumerate(graph.inputs)),
        inputs=contents.inputs,
        outputs=contents.outputs,
    )


def build(graph: Graph) -> StableHloModule:
    """The module of a graph. Each operation runs once on tensors without data, so that what does
    not fit is found here and named.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    values: dict[int, Any] = dict(graph.constants)
    with mode:
        for value in graph.inputs:
            kind = graph.types[value]
            values[value] = torch.zeros(kind.shape, dtype=dtype_of(kind))
    steps: dict[str, Step] = {}
    for op in graph.ops:
        row = ROWS[op.kind]
        numbers = {
            i: number
            for i, value in enumerate(op.operands)
            if row.is_number(i) and (number := graph.number(value)) is not None
        }
        step = Step(call_of(graph, op), row, numbers)
        with mode:
            made = step(*[values[value] for value in step.reads])
        values.update(zip(op.results, made, strict=True))
        steps[f"{op.attributes.get('name', op.kind)}_{len(steps)}".replace(".", "_")] = step
    read = {value for step in steps.values() for value in step.reads} | set(graph.outputs)
    held = {v: t.contiguous() for v, t in graph.constants.items() if v in read}
    return StableHloModule(steps, held, graph.inputs, graph.outputs)


def _example(graph: Graph, value: int, seed: int) -> torch.Tensor:
    kind = graph.types[value]
    dtype = dtype_of(kind)
    if not dtype.is_floating_point:
        return torch.zeros(kind.shape, dtype=dtype)
    return torch.randn(kind.shape, generator=torch.Generator().manual_seed(seed))
