"""Functions that a configuration may lack, each with the instructions that need it.

A row of `FUNCTIONS` belongs to a flag of `NpuConfig`. Where the flag is False, the hardware has
nothing of the function, an instruction that uses it is illegal (`spec.legality`), and the compiler
refuses operators whose instructions would use it. DEPTHWISE and REPEAT are whole opcodes and have
no rows here; what REPEAT moves is no matter of operators (`spec.legality`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spec.config import NpuConfig
from spec.isa import INTERPOLATED, Alu, Opcode
from spec.logic import Fields, Truth, among

SHIFTS = (Alu.ASR, Alu.ASR_ROUND, Alu.LSL, Alu.LSR, Alu.CLZ)
"""Functions of VECTOR's ALU that `shifts` adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """An optional function.

    flag : the field of `NpuConfig`. what : its name in a sentence.
    field : of the instructions that use it, the field that says so; uses : when it does.
    only : fields of these instructions that mean nothing without the function.
    """

    flag: str
    what: str
    opcodes: tuple[Opcode, ...]
    field: str
    uses: Callable[[Fields], Truth]
    only: frozenset[str] = frozenset()


def _flag(name: str) -> Callable[[Fields], Truth]:
    return lambda v: v[name] != 0


FUNCTIONS: tuple[Function, ...] = (
    Function(
        flag="transposed_weights",
        what="weights that enter the array column by column",
        opcodes=(Opcode.MATRIX,),
        field="transposed",
        uses=_flag("transposed"),
        only=frozenset({"transposed"}),
    ),
    Function(
        flag="indexed_dma",
        what="memory addresses with an index from the scratchpad",
        opcodes=(Opcode.LOAD, Opcode.STORE),
        field="indexed",
        uses=_flag("indexed"),
        only=frozenset({"indexed", "index_base"}),
    ),
    Function(
        flag="lane_reductions",
        what="reductions across the vector lanes",
        opcodes=(Opcode.VECTOR,),
        field="reduce_lanes",
        uses=_flag("reduce_lanes"),
        only=frozenset({"reduce_lanes"}),
    ),
    Function(
        flag="table_int16",
        what="tables of int16",
        opcodes=(Opcode.VECTOR,),
        field="table",
        uses=lambda v: among(v["table"], *INTERPOLATED),
    ),
    Function(
        flag="shifts",
        what="shifts by a tensor, and CLZ",
        opcodes=(Opcode.VECTOR,),
        field="alu",
        uses=lambda v: among(v["alu"], *SHIFTS),
    ),
)


def lacking(config: NpuConfig, opcode: Opcode) -> Iterator[Function]:
    """Functions of an instruction that `config` does not have."""
    for function in FUNCTIONS:
        if opcode in function.opcodes and not getattr(config, function.flag):
            yield function


def absent_fields(config: NpuConfig, opcode: Opcode) -> frozenset[str]:
    """Fields of an instruction that `config` has no use for."""
    return frozenset().union(*(function.only for function in lacking(config, opcode)))
