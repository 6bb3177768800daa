"""Enumerations of the instruction set.

A member carries what follows from it (`Alu.operands`, `DType.bytes`), so that nobody can add one
and forget to say it. Whoever tells members apart checks itself with `spec.exhaustive`: after a
member is added here, importing the golden model and generating hardware fail with the name of each
block that does not handle it yet.
"""

import enum


class Opcode(enum.IntEnum):
    BEGIN = 0x01
    END = 0x02
    REPEAT = 0x03
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
    """Element types: value, bytes of an element, whether it is signed."""

    bytes: int
    signed: bool

    I8 = 0, 1, True
    U8 = 1, 1, False
    I16 = 2, 2, True
    U16 = 3, 2, False
    I32 = 4, 4, True

    def __new__(cls, value: int, size: int = 0, signed: bool = False) -> "DType":
        # Members name both; the defaults are for type checkers, which see DType(3) as a call of it.
        if not size:
            raise TypeError(f"DType {value}: a member needs its bytes and whether it is signed")
        member = int.__new__(cls, value)
        member._value_ = value
        member.bytes, member.signed = size, signed
        return member

    @property
    def low(self) -> int:
        """The smallest value of an element."""
        return -(1 << 8 * self.bytes - 1) if self.signed else 0

    @property
    def high(self) -> int:
        """The largest value of an element."""
        return (1 << 8 * self.bytes - self.signed) - 1


class Scale(enum.IntEnum):
    """Where a RESCALE takes multiplier and shift from."""

    OFF = 0
    TENSOR = 1
    CHANNEL = 2
    OPERAND = 3


class Alu(enum.IntEnum):
    """Functions of VECTOR's ALU: value, number of operands."""

    operands: int

    PASS = 0, 1
    ADD = 1, 2
    SUB = 2, 2
    MIN = 3, 2
    MAX = 4, 2
    ASR = 5, 2
    ASR_ROUND = 6, 2
    LSL = 7, 2
    LSR = 8, 2
    AND = 9, 2
    OR = 10, 2
    XOR = 11, 2
    EQ = 12, 2
    GT = 13, 2
    GE = 14, 2
    CLZ = 15, 1
    ABS = 16, 1

    def __new__(cls, value: int, operands: int = 0) -> "Alu":
        # Members name it; the default is for type checkers, which see Alu(3) as a call of it.
        if not operands:
            raise TypeError(f"Alu {value}: a member needs its number of operands")
        member = int.__new__(cls, value)
        member._value_ = value
        member.operands = operands
        return member

    @property
    def unary(self) -> bool:
        """The function does not use operand B."""
        return self.operands == 1


class Table(enum.IntEnum):
    """How VECTOR looks its results up: int8 entries, or int16 entries with interpolation, of whose
    23 bits I16_I8 leaves the upper eight.
    """

    OFF = 0
    I8 = 1
    I16 = 2
    I16_I8 = 3


INTERPOLATED = (Table.I16, Table.I16_I8)
"""Lookups with an index of int16."""

TABLE_SHIFT = 15
"""Lower bits of an interpolated value that I16_I8 leaves out."""


class Reduce(enum.IntEnum):
    NONE = 0
    SUM = 1
    MAX = 2
    MIN = 3
