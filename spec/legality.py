"""Rules of legality of one instruction on one configuration, each with its own message.

Widths, minima, maxima and reserved fields are checked when an `Instruction` is made; here is
what depends on the configuration or on several fields. Addresses are checked at access.
"""

from collections.abc import Iterator

from spec.config import NpuConfig
from spec.isa import (
    LOOPS,
    DType,
    Instruction,
    IsaError,
    Opcode,
    Point,
    Reduce,
    Scale,
    Space,
    Table,
)
from spec.numerics import SHIFT_MAX, SHIFT_MIN


class LegalityError(IsaError):
    """A field that no configuration, or not this one, can execute."""


_UNUSED_LOOP = 7


def check_instruction(instruction: Instruction, config: NpuConfig) -> None:
    """Raise `LegalityError` with the first rule that `instruction` breaks on `config`."""
    for problem in problems(instruction, config):
        raise LegalityError(f"{instruction.opcode.name}.{problem}")


def problems(instruction: Instruction, config: NpuConfig) -> Iterator[str]:
    """Every broken rule: field, value, rule."""
    if instruction.opcode in (Opcode.BEGIN, Opcode.END):
        return
    yield from _sync(instruction, config)
    first = instruction["loop"][0]
    if first["last"] != first["count"]:
        yield f"loop[0].last: value {first['last']} must equal its count {first['count']}"
    if instruction.opcode is Opcode.LOAD:
        yield from _load(instruction, config)
    elif instruction.opcode is Opcode.MATRIX:
        yield from _matrix(instruction, config)
    elif instruction.opcode is Opcode.DEPTHWISE:
        yield from _depthwise(instruction, config)
    elif instruction.opcode is Opcode.VECTOR:
        yield from _vector(instruction, config)


def _sync(instruction: Instruction, config: NpuConfig) -> Iterator[str]:
    op = instruction.opcode
    deepest = len(instruction["loop"])
    for kind, slots in (("wait", instruction["wait"]), ("post", instruction["post"])):
        for i, slot in enumerate(slots):
            if not slot["amount"]:
                continue
            where, point = f"{kind}[{i}]", Point(slot["point"])
            if slot["sem"] >= config.semaphores:
                yield (
                    f"{where}.sem: value {slot['sem']}: this configuration has semaphores "
                    f"0…{config.semaphores - 1}"
                )
            if slot["level"] > deepest:
                yield f"{where}.level: value {slot['level']} exceeds the {deepest} loops"
            if op is Opcode.LOAD and point is not Point.DONE:
                yield f"{where}.point: {point.name}: LOAD has only DONE"
            if point is Point.WEIGHTS:
                if op is not Opcode.MATRIX:
                    yield f"{where}.point: WEIGHTS: only MATRIX reads weights"
                elif slot["level"] > instruction["fold_loops"]:
                    yield (
                        f"{where}.level: value {slot['level']}: a WEIGHTS slot's level is at most "
                        f"fold_loops={instruction['fold_loops']}"
                    )


def _load(instruction: Instruction, config: NpuConfig) -> Iterator[str]:
    space = Space(instruction["space"])
    if space is Space.ACC:
        yield "space: ACC: LOAD writes SPAD, PARAM or TABLE; use VECTOR to write the accumulator"
    if instruction["indexed"] and (space is not Space.SPAD or instruction["fill"]):
        yield (
            f"indexed: value 1: space is {space.name} and fill {instruction['fill']}; only a copy "
            "to SPAD takes indices"
        )
    if space in (Space.PARAM, Space.TABLE) and not instruction["fill"]:
        bus = config.bus_bytes
        for name, mem, chip in (
            ("mem_base", instruction["mem_base"], instruction["chip_base"]),
            *(
                (f"loop[{i}].mem", loop["mem"], loop["chip"])
                for i, loop in enumerate(instruction["loop"])
                if max(loop["count"], loop["last"]) > 1
            ),
        ):
            if (mem - chip) % bus:
                yield (
                    f"{name}: value {mem}: {space.name} runs need the same alignment on chip "
                    f"({chip}) modulo bus_bytes={bus}"
                )


def _at_most(
    instruction: Instruction, names: tuple[str, ...], limit: int, what: str
) -> Iterator[str]:
    for name in names:
        if instruction[name] > limit:
            yield f"{name}: value {instruction[name]} exceeds the configuration's {what}={limit}"


def _matrix(instruction: Instruction, config: NpuConfig) -> Iterator[str]:
    yield from _at_most(instruction, ("rows", "rows_last"), config.rows, "rows")
    yield from _at_most(instruction, ("cols", "cols_last"), config.cols, "cols")
    for name in ("row_loop", "col_loop"):
        yield from _fold_loop(instruction, name)
    if instruction["transposed"] and not config.transposed_weights:
        yield "transposed: value 1: this configuration has no transposed weights"
    yield from _operands(instruction)


def _fold_loop(instruction: Instruction, name: str) -> Iterator[str]:
    folds = instruction["fold_loops"]
    if instruction[name] != _UNUSED_LOOP and instruction[name] >= folds:
        yield (
            f"{name}: value {instruction[name]} must be a fold loop (below fold_loops={folds}) "
            f"or {_UNUSED_LOOP} for none"
        )


def _operands(instruction: Instruction) -> Iterator[str]:
    for stream in ("act", "wgt"):
        low, high = (0, 255) if instruction[f"{stream}_unsigned"] else (-128, 127)
        zp = instruction[f"{stream}_zp"]
        if low - zp < -256 or high - zp > 255:
            yield (
                f"{stream}_zp: value {zp}: operands {low}…{high} minus the zero point must lie in "
                "-256…255"
            )


def _depthwise(instruction: Instruction, config: NpuConfig) -> Iterator[str]:
    if not config.depthwise:
        yield "opcode: DEPTHWISE: this configuration has no depthwise engine"
        return
    yield from _at_most(instruction, ("lanes", "lanes_last"), config.cols, "cols")
    yield from _at_most(instruction, ("kernel_cols",), config.taps, "taps")
    if instruction["stride"] > instruction["kernel_cols"]:
        yield (
            f"stride: value {instruction['stride']} exceeds "
            f"kernel_cols={instruction['kernel_cols']}"
        )
    yield from _fold_loop(instruction, "lane_loop")
    yield from _operands(instruction)


def _vector(instruction: Instruction, config: NpuConfig) -> Iterator[str]:
    yield from _at_most(instruction, ("lanes", "lanes_last"), config.cols, "cols")
    if instruction["lane_loop"] not in (*range(LOOPS), _UNUSED_LOOP):
        yield f"lane_loop: value {instruction['lane_loop']} must be 0…{LOOPS - 1} or {_UNUSED_LOOP}"
    for operand in ("a", "o"):
        kind = DType(instruction[f"{operand}_type"])
        if instruction[f"{operand}_space"] == Space.ACC and kind is not DType.I32:
            yield f"{operand}_type: {kind.name}: must be I32 where {operand}_space is ACC"
    for operand in ("a", "b", "o"):
        scaled = instruction[f"{operand}_scale"] == Scale.TENSOR
        if scaled and not SHIFT_MIN <= instruction[f"{operand}_shift"] <= SHIFT_MAX:
            yield (
                f"{operand}_shift: value {instruction[f'{operand}_shift']}: a RESCALE's shift lies "
                "in 2…62"
            )
    if instruction["a_clamp"] and instruction["a_min"] > instruction["a_max"]:
        yield f"a_min: value {instruction['a_min']} exceeds a_max={instruction['a_max']}"
    if instruction["o_min"] > instruction["o_max"]:
        yield f"o_min: value {instruction['o_min']} exceeds o_max={instruction['o_max']}"
    if instruction["table"] == Table.I16:
        for name in ("o_min", "o_max"):
            if not -(1 << 15) <= instruction[name] < 1 << 15:
                yield (
                    f"{name}: value {instruction[name]}: with table=I16 it must lie in -32768…32767"
                )
    if instruction["reduce"] != Reduce.NONE:
        yield from _reduction(instruction)
    elif instruction["reduce_lanes"]:
        yield "reduce_lanes: value 1: needs a reduction (reduce is NONE)"


def _reduction(instruction: Instruction) -> Iterator[str]:
    mask = instruction["reduce_loops"]
    first = (mask & -mask).bit_length() - 1
    lane_loop = instruction["lane_loop"]
    if mask >> lane_loop & 1 and not instruction["reduce_lanes"]:
        yield (
            f"lane_loop: value {lane_loop}: must not be a reduction loop (reduce_loops={mask:#08b})"
            " unless reduce_lanes is set"
        )
    for i, loop in enumerate(instruction["loop"]):
        if mask and i > first and not mask >> i & 1 and max(loop["count"], loop["last"]) > 1:
            yield (
                f"reduce_loops: value {mask:#08b}: loop {i} runs inside reduction loop {first} and "
                "must be one too"
            )
