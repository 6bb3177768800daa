"""How long an instruction keeps its engine busy, if nothing holds it up."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from spec.config import NpuConfig
from spec.isa import DType, Reduce, Space, Table, reads_b, rescales_b, rescales_result
from sw.compiler.machine.costs import (
    MEMORY_LATENCY,
    TABLE_STEP_CYCLES,
    columns_read,
    weight_cycles,
)
from sw.compiler.program.banks import conflict_factor
from sw.compiler.program.records import Depthwise, Load, Matrix, Store, Vector
from sw.compiler.program.virtual import VirtualInstruction, iterations


def busy_cycles(
    instruction: VirtualInstruction, config: NpuConfig, latency: float = MEMORY_LATENCY
) -> float:
    """About how long an instruction keeps its engine busy; latency: of memory."""
    record = instruction.record
    steps = iterations(record.loop, len(record.loop))
    if isinstance(record, Load | Store):
        moved = steps * max(1.0, record.run / config.bus_bytes)
        if isinstance(record, Load) and record.fill:
            return moved
        # Each burst is in flight for the latency, and not more of them than the engine counts.
        return max(moved, _bursts(record, config) * latency / config.outstanding)
    if isinstance(record, Matrix):
        # A fold takes as long as its vectors, or as loading the next weights under it.
        folds = iterations(record.loop, record.fold_loops)
        return max(steps, folds * weight_cycles(config, bool(record.transposed)))
    if isinstance(record, Depthwise):
        reads = columns_read(record.outputs, record.stride, record.kernel_cols, config)
        return float(steps * len(reads) * record.kernel_rows)
    bases = instruction.bases
    return vector_cycles(record, config, near=bases.get("b_base") is bases.get("a_base"))


def depthwise_cycles(record: Depthwise, config: NpuConfig) -> float:
    """Cycles of a DEPTHWISE: of each row of outputs one for a column of the input that it lies on,
    or for those that are read together; in the input for each kernel row in it. The weights of a
    fold come between, a cycle a vector, but beside columns outside the input.
    """
    reads = columns_read(record.outputs, record.stride, record.kernel_cols, config)
    total, outside = 0, 0
    rows = list(_positions(record.y0, [(n.count, n.dy) for n in record.loop]))
    cols = list(_positions(record.x0, [(n.count, n.dx) for n in record.loop]))
    for y in rows:
        high = sum(0 <= y + record.row_step * k < record.height for k in range(record.kernel_rows))
        for x in cols:
            inside = sum(
                any(0 <= x + record.col_step * c < record.width for c in columns)
                for columns in reads
            )
            inside = inside if high else 0
            outside += len(reads) - inside
            total += inside * high + len(reads) - inside
    steps = iterations(record.loop, len(record.loop))
    each = total / (len(rows) * len(cols))
    folds = iterations(record.loop, record.fold_loops)
    beside = outside / (len(rows) * len(cols))
    weights = max(0.0, record.kernel_rows * record.kernel_cols - beside)
    return steps * each + folds * weights


def _positions(first: int, loops: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Where a coordinate is in the iterations of the loops (count, stride) that change it."""
    spans = [range(0, count * by, by) for count, by in loops if by and count > 1]
    return (first + sum(steps) for steps in itertools.product(*spans))


def _bursts(record: Load | Store, config: NpuConfig) -> float:
    """Bursts on the bus: of contiguous pieces, or of those in the same bus words."""
    run, runs, pitch = pieces(record)
    if pitch < config.bus_bytes:
        run, runs = pitch * (runs - 1) + run, 1
    return runs * math.ceil(run / (config.max_burst * config.bus_bytes))


def pieces(record: Load | Store) -> tuple[int, int, int]:
    """Bytes of contiguous pieces of memory, their number, and from one to the next in the innermost
    loop.
    """
    run, loops = record.run, [loop for loop in record.loop if loop.count > 1]
    while loops and loops[-1].mem == run:
        run *= loops.pop().count
    runs = math.prod(loop.count for loop in loops)
    return run, runs, abs(loops[-1].mem) if loops else run


def vector_cycles(record: Vector, config: NpuConfig, *, near: bool = False) -> float:
    """Cycles of a VECTOR: each step takes as many as its words take to read and to write, and as it
    takes the lanes' RESCALE, that for each part in which the vector passes the lanes.

    In a reduction only its last step has a result. `near`: B lies in the buffer of A, so that it is
    known where both are in the same banks. If B is A, its words are read twice.
    """
    chosen = 0 if record.reduce is Reduce.NONE else record.reduce_loops
    counts = [loop.count for loop in record.loop]
    written = math.prod(n for i, n in enumerate(counts) if not chosen >> i & 1)
    lanes = record.lanes
    words = words_read(record, config)
    read = max(1.0, reading_cycles(*words, fresh_share(record)))
    if near and all(words):
        read *= _clashes(record, config)
    write = _words(record.o_space, record.o_type, 1 if record.reduce_lanes else lanes, config)
    fields = {name: getattr(record, name) for name in _RATE}
    parts = results = lane_parts(config, lanes)
    if record.reduce_lanes:
        parts, results = config.vector_parts, 1
    scaled = float(parts * math.prod(counts) * (1 + bool(rescales_b(fields))))
    scaled += results * written * bool(rescales_result(fields))
    looked = results * written * _lookup_cycles(record.table, config)
    if parts > 1:
        # The next step's first words come with a step's last part, the others between the steps.
        scaled += math.prod(counts) * (read - 1)
    return float(max(math.prod(counts) * read, written * write, scaled, looked))


def words_read(record: Vector, config: NpuConfig) -> tuple[int, int]:
    """Words of the scratchpad that a step reads of A and of B, where it reads both."""
    a = b = 0
    if record.a_space is not Space.ACC:
        a = _words(Space.SPAD, record.a_type, 1 if record.a_one else record.lanes, config)
    if reads_b({"alu": record.alu, "a_scale": record.a_scale, "b_none": record.b_none}):
        b = _words(Space.SPAD, record.b_type, 1 if record.b_one else record.lanes, config)
    return a, b


def reading_cycles(a: int, b: int, fresh: float = 1.0) -> float:
    """Cycles of a step that reads so many words of A and of B; fresh: share of the steps in which B
    is read. Both ports read what is alone (hw_gen/blocks/vector_issue.py).
    """
    if not a or not b:
        return float(-(-(a + b) // 2))
    return fresh * max(a, b) + (1 - fresh) * -(-a // 2)


def fresh_share(record: Vector) -> float:
    """Share of the steps in which B is read: one element for all lanes stays in them while its
    address does.
    """
    if not record.b_one:
        return 1.0
    moving = [i for i, loop in enumerate(record.loop) if loop.b and loop.count > 1]
    inner = record.loop[moving[-1] + 1 :] if moving else record.loop
    return 1 / math.prod(loop.count for loop in inner)


def _clashes(record: Vector, config: NpuConfig) -> float:
    """Cycles that A and B of one buffer take for each that they would take in banks apart."""
    same = record.a_base == record.b_base and all(loop.a == loop.b for loop in record.loop)
    return 2 if same else conflict_factor(record, config)


def lane_parts(config: NpuConfig, lanes: int) -> int:
    """Parts in which a vector with so many elements in use passes the lanes."""
    return -(-min(lanes, config.cols) // config.lane_count)


def _lookup_cycles(table: object, config: NpuConfig) -> int:
    """Cycles of a step or of its part in TABLE, which a lane may have alone."""
    return 1 if table is Table.OFF else min(TABLE_STEP_CYCLES, config.lane_count)


_RATE = (
    *("alu", "a_type", "a_zp", "bias", "a_scale", "a_clamp", "a_shl"),
    *("b_type", "b_zp", "b_none", "b_scale", "o_scale", "reduce", "table"),
)
"""Fields of VECTOR that say for what the lanes' RESCALE is taken, and whether TABLE is."""
_NOTHING = {name: getattr(Vector(), name) for name in _RATE}


def step_cycles(fields: Mapping[str, object], config: NpuConfig, lanes: int) -> int:
    """Cycles that a step with a result takes in the lanes: for each part of its vector one of
    RESCALE for A, for B and for the result, or those of TABLE. `fields`: those that are not at
    their defaults. `lanes`: elements of the vector.
    """
    full = {name: fields.get(name, nothing) for name, nothing in _NOTHING.items()}
    scaled = 1 + bool(rescales_b(full)) + bool(rescales_result(full))
    return lane_parts(config, lanes) * max(_lookup_cycles(full["table"], config), scaled)


def _words(space: Space, kind: DType, elements: int, config: NpuConfig) -> int:
    """Words of a vector of A, B or the result; the accumulator has it in one."""
    return 1 if space is Space.ACC else -(-kind.bytes * elements // config.word_bytes)
