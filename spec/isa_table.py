"""The instruction table: the one place where opcodes, fields and their bits are written.

An instruction is a whole number of 16-byte granules. Fields are packed from bit 0 upwards in
the order of the table, groups element by element; bits above the last field are zero. Encoder,
decoder, disassembler, hardware layouts, the C header and the ISA page all derive from `TABLE`.
`docs/contract.md` gives the semantics, `docs/isa.md` (generated) lists the fields.
"""

import enum
import hashlib
from dataclasses import dataclass
from functools import cached_property

ISA_VERSION = (1, 2)
"""Major: an old program may not run. Minor: additions that no old program can see."""

GRANULE_BITS = 128
GRANULE_BYTES = GRANULE_BITS // 8
LOOPS = 6
DMA_LOOPS = 4
ROW_LOOPS = 4
KERNEL_ROWS = 8
"""Most kernel rows of one DEPTHWISE; taller kernels take several that accumulate."""
SYNC_SLOTS = 6
REGIONS = 8


class Opcode(enum.IntEnum):
    BEGIN = 0x01
    END = 0x02
    LOAD = 0x10
    STORE = 0x11
    MATRIX = 0x20
    DEPTHWISE = 0x21
    VECTOR = 0x30


class Engine(enum.IntEnum):
    """Engines in the order of the counter and program-counter registers."""

    FETCH = 0
    LOAD = 1
    STORE = 2
    MATRIX = 3
    VECTOR = 4
    DEPTHWISE = 5


class Point(enum.IntEnum):
    """When a post fires, and which of an engine's two sequencers a wait holds back."""

    DONE = 0
    READ = 1
    WEIGHTS = 2


class Space(enum.IntEnum):
    """On-chip destinations of LOAD (SPAD, PARAM, TABLE) and operands of VECTOR (SPAD, ACC)."""

    SPAD = 0
    ACC = 1
    PARAM = 2
    TABLE = 3


class DType(enum.IntEnum):
    I8 = 0
    U8 = 1
    I16 = 2
    U16 = 3
    I32 = 4

    @property
    def bytes(self) -> int:
        return (1, 1, 2, 2, 4)[self]


class Scale(enum.IntEnum):
    """Where a RESCALE takes multiplier and shift from."""

    OFF = 0
    TENSOR = 1
    CHANNEL = 2
    OPERAND = 3


class Alu(enum.IntEnum):
    PASS = 0
    ADD = 1
    SUB = 2
    MIN = 3
    MAX = 4
    ASR = 5
    ASR_ROUND = 6
    LSL = 7
    LSR = 8
    AND = 9
    OR = 10
    XOR = 11
    EQ = 12
    GT = 13
    GE = 14
    CLZ = 15
    ABS = 16

    @property
    def unary(self) -> bool:
        """B has no part in it."""
        return self in (Alu.PASS, Alu.CLZ, Alu.ABS)


class Table(enum.IntEnum):
    """How VECTOR looks its results up: int8 entries, or int16 entries with interpolation."""

    OFF = 0
    I8 = 1
    I16 = 2


class Reduce(enum.IntEnum):
    NONE = 0
    SUM = 1
    MAX = 2
    MIN = 3


@dataclass(frozen=True, slots=True)
class Field:
    """`bits` wide; `low`/`high` bound the legal values where they are tighter than the width.

    `reserved` fields belong to functions of the complete machine that no configuration of this
    release has: anything but zero is an illegal instruction.
    """

    name: str
    bits: int
    doc: str
    signed: bool = False
    low: int | None = None
    high: int | None = None
    kind: type[enum.IntEnum] | None = None
    reserved: bool = False

    @property
    def minimum(self) -> int:
        if self.low is not None:
            return self.low
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def maximum(self) -> int:
        if self.reserved:
            return 0
        if self.high is not None:
            return self.high
        if self.kind is not None:
            return max(self.kind)
        return (1 << (self.bits - self.signed)) - 1


@dataclass(frozen=True, slots=True)
class Group:
    """`count` copies of the same fields, element 0 first."""

    name: str
    count: int
    fields: tuple[Field, ...]
    doc: str

    @property
    def bits(self) -> int:
        return self.count * sum(f.bits for f in self.fields)


@dataclass(frozen=True)
class Format:
    """One row of the table: an opcode and its fields."""

    opcode: Opcode
    engine: Engine
    doc: str
    items: tuple[Field | Group, ...]

    @cached_property
    def bits(self) -> int:
        return sum(item.bits for item in self.items)

    @cached_property
    def granules(self) -> int:
        return -(-self.bits // GRANULE_BITS)


def _sync(name: str, doc: str) -> Group:
    return Group(
        name,
        SYNC_SLOTS,
        (
            Field("sem", 6, "semaphore"),
            Field("level", 3, "0: once per instruction; l: once per iteration of loop l-1"),
            Field("point", 2, "0 DONE, 1 READ, 2 WEIGHTS", kind=Point),
            Field("amount", 7, "how much to take or add; 0: the slot is unused"),
        ),
        doc,
    )


_HEADER = (
    Field("opcode", 8, "which instruction", kind=Opcode),
    Field("granules", 8, "its length in 16-byte granules"),
    Field("flags", 16, "must be zero", reserved=True),
)
_SYNC = (
    _sync("wait", "block until the semaphore holds `amount`, then take it"),
    _sync("post", "add `amount` to the semaphore"),
)
_COUNTS = (
    Field("count", 16, "iterations", low=1),
    Field("last", 16, "iterations while the next outer loop is in its last one", low=1),
)


def _dma_loops() -> Group:
    return Group(
        "loop",
        DMA_LOOPS,
        (
            *_COUNTS,
            Field("mem", 40, "stride in memory, bytes", signed=True),
            Field("chip", 24, "stride on chip, bytes", signed=True),
        ),
        "loop 0 is the outermost",
    )


_MEMORY = (
    Field("region", 3, "base register that `mem_base` is relative to"),
    Field("mem_base", 40, "byte offset in the region"),
)
_INDEX = (
    Field("indexed", 1, "add a signed int32 from the scratchpad to the memory address"),
    Field("index_base", 24, "byte address of loop 0's first index; 4 bytes each"),
)

TABLE: tuple[Format, ...] = (
    Format(
        Opcode.BEGIN,
        Engine.FETCH,
        "First instruction of every program: what it was compiled for.",
        (
            *_HEADER,
            Field("isa_digest", 32, "low word of the ISA digest"),
            Field("config_digest", 64, "digest of the configuration"),
        ),
    ),
    Format(Opcode.END, Engine.FETCH, "Finish when every engine is idle; interrupt.", _HEADER),
    Format(
        Opcode.LOAD,
        Engine.LOAD,
        "Copy `run` contiguous bytes per iteration from memory on chip, or fill them.",
        (
            *_HEADER,
            *_SYNC,
            *_MEMORY,
            Field("space", 2, "destination: SPAD, PARAM or TABLE", kind=Space),
            Field("fill", 1, "1: write `fill_value`, touch no memory"),
            Field("fill_value", 8, "the byte that a fill writes"),
            Field("chip_base", 24, "byte address on chip"),
            Field("run", 24, "bytes per iteration", low=1),
            *_INDEX,
            _dma_loops(),
        ),
    ),
    Format(
        Opcode.STORE,
        Engine.STORE,
        "Copy `run` contiguous bytes per iteration from the scratchpad to memory.",
        (
            *_HEADER,
            *_SYNC,
            *_MEMORY,
            Field("chip_base", 24, "byte address in the scratchpad"),
            Field("run", 24, "bytes per iteration", low=1),
            *_INDEX,
            _dma_loops(),
        ),
    ),
    Format(
        Opcode.MATRIX,
        Engine.MATRIX,
        "Stream activation vectors through stationary weights into the accumulator.",
        (
            *_HEADER,
            *_SYNC,
            Field("act_base", 24, "byte address of the first activation vector"),
            Field("wgt_base", 24, "byte address of the first weight vector"),
            Field("wgt_row", 24, "bytes between successive weight vectors", signed=True),
            Field("acc_base", 16, "first accumulator vector"),
            Field("y0", 16, "row of the first vector in the input", signed=True),
            Field("x0", 16, "column of the first vector in the input", signed=True),
            Field("height", 16, "rows of the input; outside reads as the zero point", low=1),
            Field("width", 16, "columns of the input", low=1),
            Field("act_zp", 10, "activation zero point", signed=True, low=-256, high=255),
            Field("wgt_zp", 10, "weight zero point", signed=True, low=-256, high=255),
            Field("act_unsigned", 1, "activations are uint8"),
            Field("wgt_unsigned", 1, "weights are uint8"),
            Field(
                "fold_loops", 3, "loops 0…n-1 each take new weights, the rest stream", high=LOOPS
            ),
            Field("k_loops", 6, "bit l: loop l is a reduction loop"),
            Field("accumulate", 1, "add to the accumulator on the first reduction step too"),
            Field("row_loop", 3, "loop whose last iteration uses `rows_last`; 7: none"),
            Field("rows", 8, "array rows in use", low=1),
            Field("rows_last", 8, "rows in use in the last block", low=1),
            Field("col_loop", 3, "loop whose last iteration uses `cols_last`; 7: none"),
            Field("cols", 8, "array columns in use", low=1),
            Field("cols_last", 8, "columns in use in the last block", low=1),
            Field("transposed", 1, "weight vectors are array columns, not rows"),
            Field("act_step", 2, "log2 of bytes between operands of a vector", reserved=True),
            Field("wgt_step", 2, "the same for weights", reserved=True),
            Field("acc_shift", 5, "left shift of the products", reserved=True),
            Group(
                "loop",
                LOOPS,
                (
                    *_COUNTS,
                    Field("act", 24, "activation stride, bytes", signed=True),
                    Field("wgt", 24, "weight stride, bytes (fold loops)", signed=True),
                    Field("acc", 16, "accumulator stride, vectors", signed=True),
                    Field("dy", 16, "step of the input row", signed=True),
                    Field("dx", 16, "step of the input column", signed=True),
                ),
                "loop 0 is the outermost",
            ),
        ),
    ),
    Format(
        Opcode.DEPTHWISE,
        Engine.DEPTHWISE,
        "Per step one row of outputs: each lane convolves its own channel, into the accumulator.",
        (
            *_HEADER,
            *_SYNC,
            Field("act_base", 24, "byte address of the first activation vector"),
            Field("act_row", 24, "bytes between kernel rows of the input", signed=True),
            Field("act_col", 24, "bytes between columns of the input", signed=True),
            Field("wgt_base", 24, "byte address of the first weight vector"),
            Field("wgt_row", 24, "bytes between the weights of kernel rows", signed=True),
            Field("wgt_col", 24, "bytes between the weights of kernel columns", signed=True),
            Field("acc_base", 16, "first accumulator vector"),
            Field("acc_col", 16, "accumulator vectors between outputs of a row", signed=True),
            Field("y0", 16, "row of the first vector in the input", signed=True),
            Field("x0", 16, "column of the first vector in the input", signed=True),
            Field("row_step", 8, "step of the input row per kernel row", signed=True),
            Field("col_step", 8, "step of the input column per column", signed=True),
            Field("height", 16, "rows of the input; outside reads as the zero point", low=1),
            Field("width", 16, "columns of the input", low=1),
            Field("act_zp", 10, "activation zero point", signed=True, low=-256, high=255),
            Field("wgt_zp", 10, "weight zero point", signed=True, low=-256, high=255),
            Field("act_unsigned", 1, "activations are uint8"),
            Field("wgt_unsigned", 1, "weights are uint8"),
            Field("kernel_rows", 4, "rows of the kernel", low=1, high=KERNEL_ROWS),
            Field("kernel_cols", 4, "columns of the kernel, at most `taps`", low=1),
            Field("stride", 4, "columns between outputs, at most kernel_cols", low=1),
            Field("outputs", 16, "outputs of a row", low=1),
            Field("accumulate", 1, "add to the accumulator"),
            Field("fold_loops", 3, "loops 0…n-1 each take new weights", high=ROW_LOOPS),
            Field("lane_loop", 3, "loop whose last iteration uses `lanes_last`; 7: none"),
            Field("lanes", 8, "lanes in use", low=1),
            Field("lanes_last", 8, "lanes in use in the last block", low=1),
            Group(
                "loop",
                ROW_LOOPS,
                (
                    *_COUNTS,
                    Field("act", 24, "activation stride, bytes", signed=True),
                    Field("wgt", 24, "weight stride, bytes (fold loops)", signed=True),
                    Field("acc", 16, "accumulator stride, vectors", signed=True),
                    Field("dy", 16, "step of the input row", signed=True),
                    Field("dx", 16, "step of the input column", signed=True),
                ),
                "loop 0 is the outermost",
            ),
        ),
    ),
    Format(
        Opcode.VECTOR,
        Engine.VECTOR,
        "Per step one vector: A, bias, RESCALE, ALU with B, reduce, RESCALE, clamp, TABLE, write.",
        (
            *_HEADER,
            *_SYNC,
            Field("a_space", 2, "SPAD or ACC", kind=Space, high=1),
            Field("a_type", 3, "element type of A (ACC: I32)", kind=DType),
            Field("a_base", 24, "byte address, or accumulator vector"),
            Field("a_one", 1, "A is one element (ACC: lane 0), repeated in all lanes"),
            Field("a_zp", 18, "subtracted from A", signed=True),
            Field("bias", 1, "add the parameter entry's bias"),
            Field("a_scale", 2, "RESCALE of A", kind=Scale),
            Field("a_mult", 32, "tensor multiplier", signed=True),
            Field("a_shift", 6, "tensor shift; OPERAND: 0 takes the product's low 32 bits"),
            Field("a_clamp", 1, "clamp A to a_min…a_max"),
            Field("a_min", 18, "lower bound", signed=True),
            Field("a_max", 18, "upper bound", signed=True),
            Field("a_shl", 5, "then shift A left"),
            Field("alu", 5, "v = alu(A, B)", kind=Alu),
            Field("b_type", 3, "element type of B", kind=DType),
            Field("b_base", 24, "byte address of B in the scratchpad"),
            Field("b_one", 1, "B is one element, repeated in all lanes"),
            Field("b_none", 1, "B is not read: it is 0, before b_zp is subtracted"),
            Field("b_zp", 18, "subtracted from B", signed=True),
            Field("b_scale", 2, "RESCALE of B", kind=Scale, high=1),
            Field("b_mult", 32, "tensor multiplier", signed=True),
            Field("b_shift", 6, "tensor shift", high=62),
            Field("reduce", 3, "how the reduction loops combine", kind=Reduce),
            Field("reduce_loops", 6, "bit l: loop l is reduced"),
            Field("reduce_lanes", 1, "then across the lanes: one element is the result"),
            Field("reduce_late", 1, "reduce after the clamp", reserved=True),
            Field("o_scale", 2, "RESCALE of the result", kind=Scale, high=Scale.CHANNEL),
            Field("o_mult", 32, "tensor multiplier", signed=True),
            Field("o_shift", 6, "tensor shift", high=62),
            Field("o_zp", 18, "added before the clamp", signed=True),
            Field("o_min", 32, "lower clamp bound", signed=True),
            Field("o_max", 32, "upper clamp bound", signed=True),
            Field("table", 2, "look the clamped int8 or int16 up in TABLE", kind=Table),
            Field("o_space", 2, "SPAD or ACC", kind=Space, high=1),
            Field("o_type", 3, "element type of the result (ACC: I32)", kind=DType),
            Field("o_base", 24, "byte address, or accumulator vector"),
            Field("param_base", 16, "first parameter entry"),
            Field("y0", 16, "row of the first A vector in the input", signed=True),
            Field("x0", 16, "column of the first A vector in the input", signed=True),
            Field("height", 16, "rows of the input; outside vectors are void", low=1),
            Field("width", 16, "columns of the input", low=1),
            Field("lane_loop", 3, "loop whose last iteration uses `lanes_last`; 7: none"),
            Field("lanes", 8, "lanes in use", low=1),
            Field("lanes_last", 8, "lanes in use in the last block", low=1),
            Group(
                "loop",
                LOOPS,
                (
                    *_COUNTS,
                    Field("a", 24, "stride of A: bytes, or vectors", signed=True),
                    Field("b", 24, "stride of B, bytes", signed=True),
                    Field("o", 24, "stride of the result: bytes, or vectors", signed=True),
                    Field("param", 16, "stride of the parameter entry", signed=True),
                    Field("dy", 16, "step of the input row", signed=True),
                    Field("dx", 16, "step of the input column", signed=True),
                ),
                "loop 0 is the outermost",
            ),
        ),
    ),
)

FORMATS: dict[Opcode, Format] = {f.opcode: f for f in TABLE}


def _describe() -> str:
    lines = []
    for fmt in TABLE:
        for item in fmt.items:
            fields = item.fields if isinstance(item, Group) else (item,)
            count = item.count if isinstance(item, Group) else 1
            lines += [
                f"{fmt.opcode:d} {item.name}*{count}.{f.name}:{f.bits}{f.signed:d}" for f in fields
            ]
    return "\n".join(lines)


ISA_DIGEST = int.from_bytes(hashlib.sha256(_describe().encode()).digest()[:8], "little")
"""Digest of opcodes, field names, order and widths."""
