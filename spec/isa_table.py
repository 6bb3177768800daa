"""The instruction table: the one place where opcodes, fields and their bits are written.

An instruction is a whole number of 16-byte granules. Fields are packed from bit 0 upwards in the
order of the table, a group's elements one after the other, behind those of their fields that lie
apart. Bits above the last field are zero.
Encoder and decoder, disassembler, hardware layouts, the C header and the page of instructions all
derive from `TABLE`. `docs/contract.md` says what instructions do, `docs/isa.md` (generated) lists
their fields. Numbers of opcodes and other enumerations are in `isa_enums.py`, the classes of a row
in `isa_format.py`. Legality rules of more than one field are in `legality.py`.
"""

import enum
import hashlib
from collections.abc import Iterator

from spec.exhaustive import exhaustive
from spec.isa_enums import Alu, DType, Engine, Opcode, Point, Reduce, Scale, Space, Table
from spec.isa_format import GRANULE_BITS, Field, Format, Group

ISA_VERSION = (2, 0)
"""Major: a change. Minor: an addition. For people: images are accepted by `ISA_DIGEST`."""

LOOPS = 6
DMA_LOOPS = 4
ROW_LOOPS = 4
KERNEL_ROWS = 8
"""Most kernel rows of one DEPTHWISE; taller kernels take several that accumulate."""
SYNC_SLOTS = 6
REGIONS = 8

STEPS = 4
"""Displacements that REPEAT moves on."""
BY_BITS = 3
"""Width of the number of a displacement: 0 is none."""
DISPLACED: dict[Opcode, tuple[str, ...]] = {
    Opcode.LOAD: ("mem_base", "chip_base"),
    Opcode.STORE: ("mem_base", "chip_base"),
    Opcode.MATRIX: ("act_base",),
    Opcode.DEPTHWISE: ("act_base",),
    Opcode.VECTOR: ("a_base", "b_base", "o_base"),
}
"""Addresses that a displacement can be added to. Field `<name>_by` says which."""

INDEX_BYTES = 4
"""Size of an index that LOAD or STORE adds to an address: a signed integer."""
CHIP_BITS = 24
"""Width of a byte address in an on-chip memory, of its strides, and of the length of a run."""
MEM_BITS = 40
"""Width of a byte offset in a region of memory, and of its strides."""
VECTOR_BITS = 16
"""Width of the number of an accumulator vector or a parameter entry, and of its strides."""
POSITION_BITS = 16
"""Width of a row or column of the input, which wraps around."""
LOOP_BITS = 3
NO_LOOP = (1 << LOOP_BITS) - 1
"""`row_loop`, `col_loop` or `lane_loop` where no loop has a last block of another size."""
OPERAND_LOW, OPERAND_HIGH = -256, 255
"""Range of a zero point of MATRIX or DEPTHWISE, and of an operand minus its zero point."""


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


def _header(opcode: Opcode) -> tuple[Field, ...]:
    moved = DISPLACED.get(opcode, ())
    return (
        Field("opcode", 8, "which instruction", kind=Opcode),
        Field("granules", 8, "its length in 16-byte granules"),
        *(
            Field(f"{name}_by", BY_BITS, f"displacement added to {name}; 0: none", high=STEPS)
            for name in moved
        ),
        Field("flags", 16 - BY_BITS * len(moved), "must be zero", reserved=True),
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
            Field("mem", MEM_BITS, "stride in memory, bytes", signed=True),
            Field("chip", CHIP_BITS, "stride on chip, bytes", signed=True),
        ),
        "loop 0 is the outermost",
    )


_MEMORY = (
    Field("region", 3, "base register that `mem_base` is relative to"),
    Field("mem_base", MEM_BITS, "byte offset in the region"),
)
_INDEX = (
    Field("indexed", 1, "add a signed int32 from the scratchpad to the memory address"),
    Field(
        "index_base",
        CHIP_BITS,
        "byte address of the index for loop 0's first iteration; 4 bytes each",
    ),
)

TABLE: tuple[Format, ...] = (
    Format(
        Opcode.BEGIN,
        Engine.FETCH,
        "First instruction of every program: what it was compiled for.",
        (
            *_header(Opcode.BEGIN),
            Field("isa_digest", 32, "low word of the ISA digest"),
            Field("config_digest", 64, "digest of the configuration"),
        ),
    ),
    Format(
        Opcode.END,
        Engine.FETCH,
        "Finish when every engine is idle; interrupt.",
        _header(Opcode.END),
    ),
    Format(
        Opcode.REPEAT,
        Engine.FETCH,
        "Run the section that ends here `count` times more, with addresses moved on each time.",
        (
            *_header(Opcode.REPEAT),
            Field("count", 16, "how often the section runs again", low=1),
            Field("section", 24, "granules from its first instruction to this one", low=1),
            Group(
                "step",
                STEPS,
                (Field("bytes", MEM_BITS, "added to the displacement each time", signed=True),),
                "step i moves displacement i + 1",
            ),
        ),
    ),
    Format(
        Opcode.LOAD,
        Engine.LOAD,
        "Copy `run` contiguous bytes per iteration from memory on chip, or fill them.",
        (
            *_header(Opcode.LOAD),
            *_SYNC,
            *_MEMORY,
            Field("space", 2, "destination: SPAD, PARAM or TABLE", kind=Space),
            Field("fill", 1, "1: write `fill_value`, touch no memory"),
            Field("fill_value", 8, "the byte that a fill writes"),
            Field("chip_base", CHIP_BITS, "byte address on chip"),
            Field("run", CHIP_BITS, "bytes per iteration", low=1),
            *_INDEX,
            _dma_loops(),
        ),
        points=(Point.DONE,),
    ),
    Format(
        Opcode.STORE,
        Engine.STORE,
        "Copy `run` contiguous bytes per iteration from the scratchpad to memory.",
        (
            *_header(Opcode.STORE),
            *_SYNC,
            *_MEMORY,
            Field("chip_base", CHIP_BITS, "byte address in the scratchpad"),
            Field("run", CHIP_BITS, "bytes per iteration", low=1),
            *_INDEX,
            _dma_loops(),
        ),
        points=(Point.DONE, Point.READ),
    ),
    Format(
        Opcode.MATRIX,
        Engine.MATRIX,
        "Stream activation vectors through stationary weights into the accumulator.",
        (
            *_header(Opcode.MATRIX),
            *_SYNC,
            Field("act_base", CHIP_BITS, "byte address of the first activation vector"),
            Field("wgt_base", CHIP_BITS, "byte address of the first weight vector"),
            Field("wgt_row", CHIP_BITS, "bytes between successive weight vectors", signed=True),
            Field("acc_base", VECTOR_BITS, "first accumulator vector"),
            Field("y0", POSITION_BITS, "row of the first vector in the input", signed=True),
            Field("x0", POSITION_BITS, "column of the first vector in the input", signed=True),
            Field(
                "height", POSITION_BITS, "rows of the input; outside reads as the zero point", low=1
            ),
            Field("width", POSITION_BITS, "columns of the input", low=1),
            Field(
                "act_zp",
                10,
                "activation zero point",
                signed=True,
                low=OPERAND_LOW,
                high=OPERAND_HIGH,
            ),
            Field(
                "wgt_zp", 10, "weight zero point", signed=True, low=OPERAND_LOW, high=OPERAND_HIGH
            ),
            Field("act_unsigned", 1, "activations are uint8"),
            Field("wgt_unsigned", 1, "weights are uint8"),
            Field(
                "fold_loops", 3, "loops 0…n-1 each take new weights, the rest stream", high=LOOPS
            ),
            Field("k_loops", 6, "bit l: loop l is a reduction loop"),
            Field("accumulate", 1, "add to the accumulator on the first reduction step too"),
            Field(
                "row_loop",
                LOOP_BITS,
                f"loop whose last iteration uses `rows_last`; {NO_LOOP}: none",
            ),
            Field("rows", 8, "array rows in use", low=1),
            Field("rows_last", 8, "rows in use in the last block", low=1),
            Field(
                "col_loop",
                LOOP_BITS,
                f"loop whose last iteration uses `cols_last`; {NO_LOOP}: none",
            ),
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
                    Field("act", CHIP_BITS, "activation stride, bytes", signed=True),
                    Field("wgt", CHIP_BITS, "weight stride, bytes (fold loops)", signed=True),
                    Field("acc", VECTOR_BITS, "accumulator stride, vectors", signed=True),
                    Field("dy", POSITION_BITS, "step of the input row", signed=True),
                    Field("dx", POSITION_BITS, "step of the input column", signed=True),
                ),
                "loop 0 is the outermost",
            ),
        ),
        points=(Point.DONE, Point.READ, Point.WEIGHTS),
    ),
    Format(
        Opcode.DEPTHWISE,
        Engine.DEPTHWISE,
        "Per step one row of outputs: each lane convolves its own channel, into the accumulator.",
        (
            *_header(Opcode.DEPTHWISE),
            *_SYNC,
            Field("act_base", CHIP_BITS, "byte address of the first activation vector"),
            Field("act_row", CHIP_BITS, "bytes between kernel rows of the input", signed=True),
            Field("act_col", CHIP_BITS, "bytes between columns of the input", signed=True),
            Field("wgt_base", CHIP_BITS, "byte address of the first weight vector"),
            Field("wgt_row", CHIP_BITS, "bytes between the weights of kernel rows", signed=True),
            Field("wgt_col", CHIP_BITS, "bytes between the weights of kernel columns", signed=True),
            Field("acc_base", VECTOR_BITS, "first accumulator vector"),
            Field(
                "acc_col", VECTOR_BITS, "accumulator vectors between outputs of a row", signed=True
            ),
            Field("y0", POSITION_BITS, "row of the first vector in the input", signed=True),
            Field("x0", POSITION_BITS, "column of the first vector in the input", signed=True),
            Field("row_step", 8, "step of the input row per kernel row", signed=True),
            Field("col_step", 8, "step of the input column per column", signed=True),
            Field(
                "height", POSITION_BITS, "rows of the input; outside reads as the zero point", low=1
            ),
            Field("width", POSITION_BITS, "columns of the input", low=1),
            Field(
                "act_zp",
                10,
                "activation zero point",
                signed=True,
                low=OPERAND_LOW,
                high=OPERAND_HIGH,
            ),
            Field(
                "wgt_zp", 10, "weight zero point", signed=True, low=OPERAND_LOW, high=OPERAND_HIGH
            ),
            Field("act_unsigned", 1, "activations are uint8"),
            Field("wgt_unsigned", 1, "weights are uint8"),
            Field("kernel_rows", 4, "rows of the kernel", low=1, high=KERNEL_ROWS),
            Field("kernel_cols", 4, "columns of the kernel, at most `taps`", low=1),
            Field("stride", 4, "columns between outputs, at most kernel_cols", low=1),
            Field("outputs", 16, "outputs of a row", low=1),
            Field("accumulate", 1, "add to the accumulator"),
            Field("fold_loops", 3, "loops 0…n-1 each take new weights", high=ROW_LOOPS),
            Field(
                "lane_loop",
                LOOP_BITS,
                f"loop whose last iteration uses `lanes_last`; {NO_LOOP}: none",
            ),
            Field("lanes", 8, "lanes in use", low=1),
            Field("lanes_last", 8, "lanes in use in the last block", low=1),
            Group(
                "loop",
                ROW_LOOPS,
                (
                    *_COUNTS,
                    Field("act", CHIP_BITS, "activation stride, bytes", signed=True),
                    Field("wgt", CHIP_BITS, "weight stride, bytes (fold loops)", signed=True),
                    Field("acc", VECTOR_BITS, "accumulator stride, vectors", signed=True),
                    Field("dy", POSITION_BITS, "step of the input row", signed=True),
                    Field("dx", POSITION_BITS, "step of the input column", signed=True),
                ),
                "loop 0 is the outermost",
            ),
        ),
        points=(Point.DONE, Point.READ),
    ),
    Format(
        Opcode.VECTOR,
        Engine.VECTOR,
        "Per step one vector: A, bias, RESCALE, ALU with B, reduce, RESCALE, clamp, TABLE, write.",
        (
            *_header(Opcode.VECTOR),
            *_SYNC,
            Field("a_space", 2, "SPAD or ACC", kind=Space, high=1),
            Field("a_type", 3, "element type of A (ACC: I32)", kind=DType),
            Field("a_base", CHIP_BITS, "byte address, or accumulator vector"),
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
            Field("b_base", CHIP_BITS, "byte address of B in the scratchpad"),
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
            Field("o_base", CHIP_BITS, "byte address, or accumulator vector"),
            Field("param_base", VECTOR_BITS, "first parameter entry"),
            Field("y0", POSITION_BITS, "row of the first A vector in the input", signed=True),
            Field("x0", POSITION_BITS, "column of the first A vector in the input", signed=True),
            Field("height", POSITION_BITS, "rows of the input; outside vectors are void", low=1),
            Field("width", POSITION_BITS, "columns of the input", low=1),
            Field(
                "lane_loop",
                LOOP_BITS,
                f"loop whose last iteration uses `lanes_last`; {NO_LOOP}: none",
            ),
            Field("lanes", 8, "lanes in use", low=1),
            Field("lanes_last", 8, "lanes in use in the last block", low=1),
            Group(
                "loop",
                LOOPS,
                (
                    *_COUNTS,
                    Field("a", CHIP_BITS, "stride of A: bytes, or vectors", signed=True),
                    # Without it a loop has the bits of a granule.
                    Field("b", CHIP_BITS, "stride of B, bytes", signed=True, apart=True),
                    Field("o", CHIP_BITS, "stride of the result: bytes, or vectors", signed=True),
                    Field("param", VECTOR_BITS, "stride of the parameter entry", signed=True),
                    Field("dy", POSITION_BITS, "step of the input row", signed=True),
                    Field("dx", POSITION_BITS, "step of the input column", signed=True),
                ),
                "loop 0 is the outermost",
            ),
        ),
        points=(Point.DONE, Point.READ),
    ),
)

FORMATS: dict[Opcode, Format] = exhaustive(
    "spec.isa_table.TABLE", Opcode, {f.opcode: f for f in TABLE}
)


def _describe_kind(kind: type[enum.IntEnum]) -> str:
    """Every member with its value and what it carries."""
    members = [f"{m.name}={m:d}" for m in kind]
    if issubclass(kind, Alu):
        members = [f"{m.name}={m:d}/{m.operands}" for m in kind]
    elif issubclass(kind, DType):
        members = [f"{m.name}={m:d}/{m.bytes}{m.signed:d}" for m in kind]
    return f"{kind.__name__}({' '.join(members)})"


def _describe(table: tuple[Format, ...]) -> Iterator[str]:
    """Everything that the meaning of a program depends on, a line for each field."""
    yield f"granule {GRANULE_BITS} regions {REGIONS} no loop {NO_LOOP}"
    kinds: set[type[enum.IntEnum]] = set()
    for fmt in table:
        points = " ".join(f"{p.name}={p:d}" for p in fmt.points)
        yield f"{fmt.opcode.name}={fmt.opcode:d} {fmt.engine.name}={fmt.engine:d} ({points})"
        for item in fmt.items:
            for field in item.fields if isinstance(item, Group) else (item,):
                count = item.count if isinstance(item, Group) else 1
                kinds |= {field.kind} if field.kind else set()
                yield (
                    f"{item.name}*{count}.{field.name}:{field.bits}{'s' if field.signed else 'u'} "
                    f"{field.minimum}..{field.maximum}{' reserved' if field.reserved else ''}"
                    f"{' apart' if field.apart else ''} "
                    f"{field.kind.__name__ if field.kind else '-'}"
                )
    yield from sorted(map(_describe_kind, kinds))


def table_digest(table: tuple[Format, ...]) -> int:
    """64-bit digest of an instruction table; the prose in it does not count."""
    text = "\n".join(_describe(table))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


ISA_DIGEST = table_digest(TABLE)
"""Digest of opcodes and their engines, of the fields (names, order, widths, bounds, reserved ones),
and of the members of every enumeration. Programs and hardware with different digests do not mix."""
