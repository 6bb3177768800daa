"""How long an instruction keeps its engine busy, if nothing holds it up."""

import math

from spec.config import NpuConfig
from spec.isa import DType, Reduce, Space, reads_b
from sw.compiler.program.records import Depthwise, Load, Matrix, Store, Vector
from sw.compiler.program.virtual import VirtualInstruction, iterations


def busy_cycles(instruction: VirtualInstruction, config: NpuConfig) -> float:
    """About how long an instruction keeps its engine busy."""
    record = instruction.record
    steps = iterations(record.loop, len(record.loop))
    if isinstance(record, Load | Store):
        return steps * max(1.0, record.run / config.bus_bytes)
    if isinstance(record, Matrix):
        # A fold takes as long as its vectors, or as loading the next weights under it.
        folds = iterations(record.loop, record.fold_loops)
        return max(steps, folds * (config.cols if record.transposed else config.rows))
    if isinstance(record, Depthwise):
        columns = (record.outputs - 1) * record.stride + record.kernel_cols
        return float(steps * columns * record.kernel_rows)
    bases = instruction.bases
    same = bases.get("b_base") is bases.get("a_base") and record.a_base == record.b_base
    same = same and all(loop.a == loop.b for loop in record.loop)
    return vector_cycles(record, config, same=same)


def vector_cycles(record: Vector, config: NpuConfig, *, same: bool = False) -> float:
    """Cycles of a VECTOR: each step takes as many as the widest of A, B and result has words.

    In a reduction only its last step writes. `same`: B is A, whose words are then read twice.
    """
    chosen = 0 if record.reduce is Reduce.NONE else record.reduce_loops
    counts = [loop.count for loop in record.loop]
    written = math.prod(n for i, n in enumerate(counts) if not chosen >> i & 1)
    lanes = record.lanes
    a = _words(record.a_space, record.a_type, 1 if record.a_one else lanes, config)
    read = a
    if reads_b({"alu": record.alu, "a_scale": record.a_scale, "b_none": record.b_none}):
        b = _words(Space.SPAD, record.b_type, 1 if record.b_one else lanes, config)
        read = max(a, b)
        if same and record.a_space is not Space.ACC:
            read *= 2
    write = _words(record.o_space, record.o_type, 1 if record.reduce_lanes else lanes, config)
    return float(max(math.prod(counts) * read, written * write))


def _words(space: Space, kind: DType, elements: int, config: NpuConfig) -> int:
    """Words of a vector of A, B or the result; the accumulator has it in one."""
    return 1 if space is Space.ACC else -(-kind.bytes * elements // config.word_bytes)
