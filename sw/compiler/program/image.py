"""Stage `image`: instructions, constants and ports as a program image."""

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
    layer: Layer, predicted: int, macs: int, module: str, tensors: dict[str, Buffer]
) -> dict[str, Any]:
    """What `info` says of a layer.

    `module`, `source`: submodule and line of the user's model. `macs`: of its products.
    `predicted_cycles`: see `timeline`. `output`: where its result lies, strides in bytes;
    `region` is None where it stays on chip: `offset` then is its scratchpad address.
    """
    view = layer.output
    buffer = tensors[view.tensor]
    return {
        "name": layer.name,
        "ops": list(layer.ops),
        "module": module,
        "source": layer.source,
        "macs": macs,
        "predicted_cycles": predicted,
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


def build_image(
    instructions: Sequence[Instruction],
    virtual: Sequence[VirtualInstruction],
    graph: Graph,
    program: LayerProgram,
    predicted: Sequence[int],
    tensors: dict[str, Buffer],
    constants: ConstantPool,
    peaks: Peaks,
    config: NpuConfig,
    name: str,
) -> Image:
    """The image, with what a report wants to know about the program in `info`."""
    roots = program.storage.outputs
    macs = {op.name: op_macs(graph, op) for op in graph.ops}
    kinds = Counter(i.opcode.name.lower() for i in instructions)
    return Image(
        config=config,
        program=np.frombuffer(encode_program(instructions), np.uint8).copy(),
        constants=constants.array(),
        inputs=tuple(_port(graph.tensors[n], tensors[n]) for n in graph.inputs),
        outputs=tuple(_port(graph.tensors[n], tensors[roots[n]]) for n in graph.outputs),
        temp_bytes=peaks.temp_bytes,
        info={
            "name": name,
            "macs": graph_macs(graph),
            "layers": [
                _layer(x, cycles, macs.get(x.name, 0), graph.modules.get(x.name, ""), tensors)
                for x, cycles in zip(program.layers, predicted, strict=True)
            ],
            "instruction_layers": layer_runs(virtual),
            "instructions": dict(kinds),
            "peak_spad_bytes": peaks.spad_bytes,
            "peak_param_entries": peaks.param_entries,
            "temp_bytes": peaks.temp_bytes,
        },
    )


def check_program(instructions: Sequence[Instruction], config: NpuConfig) -> None:
    """BEGIN first, END last, and every instruction legal on `config`."""
    if instructions[0].opcode is not Opcode.BEGIN or instructions[-1].opcode is not Opcode.END:
        raise LegalityError("the program does not run from BEGIN to END")
    for i, instruction in enumerate(instructions):
        try:
            check_instruction(instruction, config)
        except IsaError as error:
            raise LegalityError(f"instruction {i}: {error}") from None
