"""How long an instruction keeps its engine busy, if nothing holds it up."""

import math
from collections.abc import Mapping
from typing import Any

from spec.config import NpuConfig
from spec.isa import Alu, DType, Opcode, Scale, Space, reads_b
from sw.compiler.program.draft import Node, iterations


def node_cycles(node: Node, config: NpuConfig) -> float:
    """About how long a node keeps its engine busy."""
    values, loops = node.values, node.values["loop"]
    steps = iterations(loops, len(loops))
    if node.opcode in (Opcode.LOAD, Opcode.STORE):
        return steps * max(1.0, values["run"] / config.bus_bytes)
    if node.opcode is Opcode.MATRIX:
        folds = iterations(loops, values["fold_loops"])
        return max(steps, folds * (config.cols if values.get("transposed") else config.rows))
    if node.opcode is Opcode.DEPTHWISE:
        columns = (values["outputs"] - 1) * values["stride"] + values["kernel_cols"]
        return float(steps * columns * values["kernel_rows"])
    same = all(node.bases.get(x) is node.bases.get("a_base") for x in ("a_base", "b_base"))
    same = same and values.get("a_base", 0) == values.get("b_base", 0)
    same = same and all(loop.get("a", 0) == loop.get("b", 0) for loop in loops)
    return vector_cycles(values, config, same=same)


def vector_cycles(values: Mapping[str, Any], config: NpuConfig, *, same: bool = False) -> float:
    """Cycles of a VECTOR: each step takes as many as the widest of A, B and result has words.

    In a reduction only its last step writes. `same`: B is A, whose words are then read twice.
    """
    loops = values["loop"]
    lanes = values.get("lanes", config.cols)
    reduces = bool(values.get("reduce"))
    chosen = values.get("reduce_loops", 0) if reduces else 0
    counts = [loop.get("count", 1) for loop in loops]
    written = math.prod(n for i, n in enumerate(counts) if not chosen >> i & 1)
    fields = {"alu": Alu.PASS, "a_scale": Scale.OFF, "b_none": 0, **values}
    with_b = reads_b(fields)
    read = max(
        _words(values, "a", lanes, config),
        _words(values, "b", lanes, config) if with_b else 1,
    )
    if same and with_b and values.get("a_space", Space.SPAD) is not Space.ACC:
        read *= 2
    write = _words(values, "o", lanes, config)
    return float(max(math.prod(counts) * read, written * write))


def _words(values: Mapping[str, Any], stream: str, lanes: int, config: NpuConfig) -> int:
    """Words of a vector of A, B or the result; the accumulator has it in one."""
    if values.get(f"{stream}_space", Space.SPAD) is Space.ACC:
        return 1
    one = values.get("reduce_lanes") if stream == "o" else values.get(f"{stream}_one")
    size = DType(values.get(f"{stream}_type", DType.I8)).bytes * (1 if one else lanes)
    return -(-size // config.word_bytes)
