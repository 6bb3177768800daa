"""The contract's formulas, one element at a time in plain Python: what the golden model must equal.

Written from docs/contract.md without looking at the golden model; slow and obvious on purpose.
"""

from collections.abc import Iterator

import numpy as np

from spec import Instruction, NpuConfig, Opcode
from spec.isa import Alu, DType, Reduce, Scale, Space, Table

SIZES = {DType.I8: 1, DType.U8: 1, DType.I16: 2, DType.U16: 2, DType.I32: 4}
SIGNED = {DType.I8, DType.I16, DType.I32}


INDICES, INDEX_REACH = 64, 300
"""Indices at the beginning of a random scratchpad, and how far they reach."""


def wrap(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def signed16(value: int) -> int:
    return (value + (1 << 15)) % (1 << 16) - (1 << 15)


def apply_scale(value: int, multiplier: int, shift: int) -> int:
    return wrap((value * multiplier + (1 << (shift - 1))) >> shift)


def walk(loops: list[dict[str, int]]) -> Iterator[tuple[list[int], list[bool]]]:
    """Every step: indices, and which loops are in their last iteration."""

    def inner(depth: int, index: list[int], last: list[bool]):
        if depth == len(loops):
            yield list(index), list(last)
            return
        n = loops[depth]["last"] if depth and last[-1] else loops[depth]["count"]
        for i in range(n):
            yield from inner(depth + 1, [*index, i], [*last, i == n - 1])

    yield from inner(0, [], [])


class Reference:
    """Memories as bytearrays and lists; `execute` one instruction after the other."""

    def __init__(self, config: NpuConfig) -> None:
        self.config = config
        self.spad = bytearray(config.spad_bytes)
        self.acc = [[0] * config.cols for _ in range(config.acc_vectors)]
        self.param = bytearray(config.param_bytes)
        self.table = bytearray(config.table_bytes)
        self.memory = [bytearray() for _ in range(8)]

    def execute(self, instruction: Instruction) -> None:
        {
            Opcode.LOAD: self._load,
            Opcode.STORE: self._store,
            Opcode.MATRIX: self._matrix,
            Opcode.DEPTHWISE: self._depthwise,
            Opcode.VECTOR: self._vector,
        }[instruction.opcode](instruction.values)

    def _load(self, v) -> None:
        target = {0: self.spad, 2: self.param, 3: self.table}[v["space"]]
        for index, _ in walk(v["loop"]):
            chip = (v["chip_base"] + dot(index, v["loop"], "chip")) % (1 << 24)
            at = self._memory_address(v, index)
            for i in range(v["run"]):
                byte = v["fill_value"] if v["fill"] else self.memory[v["region"]][at + i]
                target[chip + i] = byte

    def _store(self, v) -> None:
        for index, _ in walk(v["loop"]):
            chip = (v["chip_base"] + dot(index, v["loop"], "chip")) % (1 << 24)
            at = self._memory_address(v, index)
            for i in range(v["run"]):
                self.memory[v["region"]][at + i] = self.spad[chip + i]

    def _memory_address(self, v, index) -> int:
        at = v["mem_base"] + dot(index, v["loop"], "mem")
        if v["indexed"]:
            at += self.load((v["index_base"] + 4 * index[0]) % (1 << 24), DType.I32)
        return at % (1 << 40)

    def _matrix(self, v) -> None:
        loops, folds = v["loop"], v["fold_loops"]
        for index, last in walk(loops):
            rows = v["rows_last"] if v["row_loop"] < 6 and last[v["row_loop"]] else v["rows"]
            cols = v["cols_last"] if v["col_loop"] < 6 and last[v["col_loop"]] else v["cols"]
            y = signed16(v["y0"] + dot(index, loops, "dy"))
            x = signed16(v["x0"] + dot(index, loops, "dx"))
            inside = 0 <= y < v["height"] and 0 <= x < v["width"]
            act = (v["act_base"] + dot(index, loops, "act")) % (1 << 24)
            wgt = v["wgt_base"] + dot(index[:folds], loops[:folds], "wgt")
            first = all(index[i] == 0 for i in range(6) if v["k_loops"] >> i & 1)
            sums = self.acc[(v["acc_base"] + dot(index, loops, "acc")) % (1 << 16)]
            for c in range(self.config.cols):
                total = 0
                for r in range(rows if inside and c < cols else 0):
                    a = self.element(act + r, v["act_unsigned"]) - v["act_zp"]
                    vector, lane = (c, r) if v["transposed"] else (r, c)
                    at = (wgt + vector * v["wgt_row"]) % (1 << 24)
                    total += a * (self.element(at + lane, v["wgt_unsigned"]) - v["wgt_zp"])
                old = 0 if first and not v["accumulate"] else sums[c]
                sums[c] = wrap(total + old)

    def _depthwise(self, v) -> None:
        loops, folds = v["loop"], v["fold_loops"]
        for index, last in walk(loops):
            n = v["lanes_last"] if v["lane_loop"] < 4 and last[v["lane_loop"]] else v["lanes"]
            wgt = v["wgt_base"] + dot(index[:folds], loops[:folds], "wgt")
            for j in range(v["outputs"]):
                at = v["acc_base"] + dot(index, loops, "acc") + j * v["acc_col"]
                vector = self.acc[at % (1 << 16)]
                for c in range(self.config.cols):
                    total = 0
                    for k in range(v["kernel_rows"] if c < n else 0):
                        for t in range(v["kernel_cols"]):
                            place = wgt + k * v["wgt_row"] + t * v["wgt_col"]
                            w = self.element(place % (1 << 24) + c, v["wgt_unsigned"]) - v["wgt_zp"]
                            total += w * self._column(v, index, k, j * v["stride"] + t, c)
                    vector[c] = wrap(total + (vector[c] if v["accumulate"] else 0))

    def _column(self, v, index, k: int, q: int, c: int) -> int:
        """The activation of lane c in kernel row k and column q of the input."""
        loops = v["loop"]
        y = signed16(v["y0"] + dot(index, loops, "dy") + k * v["row_step"])
        x = signed16(v["x0"] + dot(index, loops, "dx") + q * v["col_step"])
        if not (0 <= y < v["height"] and 0 <= x < v["width"]):
            return 0
        at = v["act_base"] + dot(index, loops, "act") + k * v["act_row"] + q * v["act_col"]
        return self.element(at % (1 << 24) + c, v["act_unsigned"]) - v["act_zp"]

    def element(self, at: int, unsigned: int) -> int:
        return self.load(at, DType.U8 if unsigned else DType.I8)

    def load(self, at: int, dtype: DType) -> int:
        raw = self.spad[at : at + SIZES[dtype]]
        return int.from_bytes(raw, "little", signed=dtype in SIGNED)

    def parameter(self, entry: int, lane: int) -> tuple[int, int, int]:
        c = self.config.cols
        base = entry * self.config.param_entry_bytes
        at = base + 4 * lane
        bias = int.from_bytes(self.param[at : at + 4], "little", signed=True)
        at = base + 4 * c + 4 * lane
        mult = int.from_bytes(self.param[at : at + 4], "little", signed=True)
        at = base + 8 * c + lane
        return bias, mult, int.from_bytes(self.param[at : at + 1], "little", signed=True)

    def _vector(self, v) -> None:
        loops = v["loop"]
        partial: dict[int, int] = {}
        reduced = [i for i in range(6) if v["reduce_loops"] >> i & 1]
        for index, last in walk(loops):
            n = v["lanes_last"] if v["lane_loop"] < 6 and last[v["lane_loop"]] else v["lanes"]
            y = signed16(v["y0"] + dot(index, loops, "dy"))
            x = signed16(v["x0"] + dot(index, loops, "dx"))
            inside = 0 <= y < v["height"] and 0 <= x < v["width"]
            values = [self._lane(v, index, lane, inside) for lane in range(n)]
            if v["reduce"] != Reduce.NONE:
                if all(index[i] == 0 for i in reduced):
                    partial = {}
                if v["reduce_lanes"]:
                    # One result, from whatever lanes are in use in each step.
                    for value in values if inside else ():
                        partial[0] = combine(v["reduce"], partial.get(0), value)
                    inside, n = False, 1
                if inside:
                    for lane in range(n):
                        partial[lane] = combine(v["reduce"], partial.get(lane), values[lane])
                if not all(last[i] for i in reduced):
                    continue
                empty = {Reduce.SUM: 0, Reduce.MAX: -(1 << 31), Reduce.MIN: (1 << 31) - 1}
                values = [partial.get(lane, empty[v["reduce"]]) for lane in range(n)]
            self._write(v, index, [self._finish(v, index, i, x) for i, x in enumerate(values)])

    def _lane(self, v, index, lane: int, inside: bool) -> int:
        loops = v["loop"]
        at = (v["a_base"] + dot(index, loops, "a")) % (1 << 24)
        a = b = 0
        a_lane, b_lane = 0 if v["a_one"] else lane, 0 if v["b_one"] else lane
        if inside and v["a_space"] == Space.ACC:
            a = wrap(self.acc[at][a_lane] - v["a_zp"])
        elif inside:
            kind = DType(v["a_type"])
            a = wrap(self.load(at + a_lane * SIZES[kind], kind) - v["a_zp"])
        unary = v["alu"] in (Alu.PASS, Alu.CLZ, Alu.ABS)
        if inside and (not unary or v["a_scale"] == Scale.OPERAND):
            kind = DType(v["b_type"])
            at = (v["b_base"] + dot(index, loops, "b")) % (1 << 24)
            b = 0 if v["b_none"] else self.load(at + b_lane * SIZES[kind], kind)
            b = wrap(b - v["b_zp"])
        entry = (v["param_base"] + dot(index, loops, "param")) % (1 << 16)
        if v["bias"]:
            a = wrap(a + self.parameter(entry, lane)[0])
        if v["a_scale"] == Scale.TENSOR:
            a = apply_scale(a, v["a_mult"], v["a_shift"])
        elif v["a_scale"] == Scale.CHANNEL:
            a = apply_scale(a, *self.parameter(entry, lane)[1:])
        elif v["a_scale"] == Scale.OPERAND:
            a = apply_scale(a, b, v["a_shift"]) if v["a_shift"] else wrap(a * b)
        if v["a_clamp"]:
            a = min(max(a, v["a_min"]), v["a_max"])
        a = wrap(a << v["a_shl"])
        if v["b_scale"] and not unary:
            b = apply_scale(b, v["b_mult"], v["b_shift"])
        by = b % 32
        return {
            Alu.PASS: a,
            Alu.ADD: wrap(a + b),
            Alu.SUB: wrap(a - b),
            Alu.MIN: min(a, b),
            Alu.MAX: max(a, b),
            Alu.ASR: a >> by,
            Alu.ASR_ROUND: (a >> by) + (a >> (by - 1) & 1 if by else 0),
            Alu.LSL: wrap(a << by),
            Alu.LSR: wrap((a % (1 << 32)) >> by),
            Alu.AND: a & b,
            Alu.OR: a | b,
            Alu.XOR: a ^ b,
            Alu.EQ: int(a == b),
            Alu.GT: int(a > b),
            Alu.GE: int(a >= b),
            Alu.CLZ: 32 - (a % (1 << 32)).bit_length(),
            Alu.ABS: wrap(abs(a)),
        }[v["alu"]]

    def _finish(self, v, index, lane: int, value: int) -> int:
        entry = (v["param_base"] + dot(index, v["loop"], "param")) % (1 << 16)
        if v["o_scale"] == Scale.TENSOR:
            value = apply_scale(value, v["o_mult"], v["o_shift"])
        elif v["o_scale"] == Scale.CHANNEL:
            value = apply_scale(value, *self.parameter(entry, lane)[1:])
        value = min(max(wrap(value + v["o_zp"]), v["o_min"]), v["o_max"])
        if v["table"] == Table.I8:
            at = (value + 128) % 256
            value = int.from_bytes(self.table[at : at + 1], "little", signed=True)
        elif v["table"] in (Table.I16, Table.I16_I8):
            entry, rest = divmod(value + 32768, 128)
            at = 2 * entry
            base = int.from_bytes(self.table[at : at + 2], "little", signed=True)
            following = int.from_bytes(self.table[at + 2 : at + 4], "little", signed=True)
            value = base * 128 + (following - base) * rest
            if v["table"] == Table.I16_I8:
                value >>= 15
        return value

    def _write(self, v, index, values: list[int]) -> None:
        at = (v["o_base"] + dot(index, v["loop"], "o")) % (1 << 24)
        if v["o_space"] == Space.ACC:
            self.acc[at] = values + [0] * (self.config.cols - len(values))
            return
        size = SIZES[DType(v["o_type"])]
        for lane, value in enumerate(values):
            low = value % (1 << (8 * size))
            self.spad[at + lane * size : at + (lane + 1) * size] = low.to_bytes(size, "little")


def dot(index: list[int], loops: list[dict[str, int]], stride: str) -> int:
    return sum(i * loop[stride] for i, loop in zip(index, loops, strict=True))


def combine(kind: int, old: int | None, value: int) -> int:
    if old is None:
        return value
    if kind == Reduce.SUM:
        return wrap(old + value)
    return max(old, value) if kind == Reduce.MAX else min(old, value)


def randomize(reference: Reference, rng: np.random.Generator) -> None:
    """Random bytes everywhere; the parameters' shifts are legal."""
    for memory in (reference.spad, reference.param, reference.table, *reference.memory):
        memory[:] = rng.integers(0, 256, len(memory), dtype=np.uint8).tobytes()
    config = reference.config
    for entry in range(config.param_entries):
        at = entry * config.param_entry_bytes + 8 * config.cols
        shifts = rng.integers(2, 63, config.cols, dtype=np.uint8)
        reference.param[at : at + config.cols] = shifts.tobytes()
    # The first words of the scratchpad are indices that random transfers can use.
    offsets = rng.integers(-INDEX_REACH, INDEX_REACH + 1, INDICES, dtype=np.int32)
    reference.spad[: 4 * INDICES] = offsets.tobytes()
    big = rng.integers(-(1 << 31), 1 << 31, (config.acc_vectors, config.cols))
    small = rng.integers(-(1 << 12), 1 << 12, big.shape)
    reference.acc = np.where(rng.random(big.shape) < 0.5, big, small).tolist()
