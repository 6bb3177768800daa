"""Stage `image`: instructions, constants and ports as a program image."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from spec.config import NpuConfig
from spec.isa import Instruction, IsaError, Opcode, encode_program
from spec.legality import check_instruction
from spec.program import Image, Port
from sw.compiler.errors import LegalityError
from sw.compiler.kernels.base import Layer, LayerProgram
from sw.compiler.program.allocate import Peaks
from sw.compiler.program.constants import ConstantPool
from sw.compiler.program.virtual import Buffer, Place, VirtualInstruction
from sw.compiler.tosa.bound import op_bound, shares
from sw.compiler.tosa.graph import Graph, Tensor
from sw.compiler.tosa.macs import graph_macs, op_macs


def _port(tensor: Tensor, buffer: Buffer) -> Port:
    return Port(
        name=tensor.name,
        offset=buffer.address,
        shape=tensor.shape,
        dtype=tensor.dtype,
        scale=tensor.scale,
        zero_point=tensor.zero_point,
    )


def _layer(
    layer: Layer,
    predicted: int,
    macs: float,
    bound: float,
    module: str,
    tensors: dict[str, Buffer],
) -> dict[str, Any]:
    """What `info` says of a layer.

    `module`, `source`: submodule and line of the user's model. `macs`: of its products.
    `predicted_cycles`: see `timeline`. `layer_bound`: see `tosa/bound.py`. `output`: where its
    result lies, strides in bytes; `region` is None where it stays on chip: `offset` then is its
    scratchpad address.
    """
    view = layer.output
    buffer = tensors[view.tensor]
    return {
        "name": layer.name,
        "ops": list(layer.ops),
        "module": module,
        "source": layer.source,
        "macs": round(macs),
        "predicted_cycles": predicted,
        "layer_bound": round(bound, 2),
        "output": {
            "region": buffer.region if buffer.place is Place.DRAM else None,
            "offset": buffer.address + view.offset,
            "dtype": view.dtype,
            "shape": list(view.shape),
            "strides": [*view.strides, view.item],
        },
    }


def layer_runs(virtual: Sequence[VirtualInstruction]) -> list[list[int]]:
    """[layer, instructions] of each stretch of the program, from the one after BEGIN on."""
    return [[layer, len(list(run))] for layer, run in groupby(n.layer for n in virtual)]


def _of_layers(
    graph: Graph, program: LayerProgram, config: NpuConfig
) -> tuple[list[float], list[float]]:
    """MACs and bound of each layer."""
    names = [layer.product_op for layer in program.layers]
    sizes = [math.prod(layer.output.shape) for layer in program.layers]
    macs = {op.name: op_macs(graph, op) for op in graph.ops}
    bounds = {op.name: op_bound(graph, op, config) for op in graph.ops}
    return shares(names, sizes, macs), shares(names, sizes, bounds)


def build_image(
    stored: Sequence[Instruction],
    instructions: Sequence[Instruction],
    virtual: Sequence[VirtualInstruction],
    graph: Graph,
    program: LayerProgram,
    predicted: Sequence[int],
    predicted_bytes: tuple[int, int],
    tensors: dict[str, Buffer],
    constants: ConstantPool,
    peaks: Peaks,
    config: NpuConfig,
    name: str,
) -> Image:
    """The image of the `stored` program, with what a report wants to know of it in `info`."""
    roots = program.storage.outputs
    macs, bounds = _of_layers(graph, program, config)
    kinds = Counter(i.opcode.name.lower() for i in instructions)
    return Image(
        config=config,
        program=np.frombuffer(encode_program(stored), np.uint8).copy(),
        constants=constants.array(),
        inputs=tuple(_port(graph.tensors[n], tensors[n]) for n in graph.inputs),
        outputs=tuple(_port(graph.tensors[n], tensors[roots[n]]) for n in graph.outputs),
        temp_bytes=peaks.temp_bytes,
        info={
            "name": name,
            "macs": graph_macs(graph),
            "layers": [
                _layer(x, cycles, work, bound, _module(graph, x.name), tensors)
                for x, cycles, work, bound in zip(
                    program.layers, predicted, macs, bounds, strict=True
                )
            ],
            "predicted_cycles": sum(predicted),
            "predicted_cycles_with": {},
            "predicted_read_bytes": predicted_bytes[0],
            "predicted_write_bytes": predicted_bytes[1],
            "layer_bound": round(sum(bounds), 2),
            "striped": [str(each) for each in graph.striped],
            "instruction_layers": layer_runs(virtual),
            "instructions": dict(kinds),
            "peak_spad_bytes": peaks.spad_bytes,
            "peak_param_entries": peaks.param_entries,
            "temp_bytes": peaks.temp_bytes,
        },
    )


def _module(graph: Graph, layer: str) -> str:
    """The submodule that a layer came from; a part of a layer has more behind a dot."""
    while layer not in graph.modules and "." in layer:
        layer = layer.rpartition(".")[0]
    return graph.modules.get(layer, "")


def check_program(instructions: Sequence[Instruction], config: NpuConfig) -> None:
    """BEGIN first, END last, and every instruction legal on `config`."""
    if instructions[0].opcode is not Opcode.BEGIN or instructions[-1].opcode is not Opcode.END:
        raise LegalityError("the program does not run from BEGIN to END")
    for i, instruction in enumerate(instructions):
        try:
            check_instruction(instruction, config)
        except IsaError as error:
            raise LegalityError(f"instruction {i}: {error}") from None
