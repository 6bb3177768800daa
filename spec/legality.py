"""Which instructions are legal on a configuration (legal configurations: spec/config.py).

Each rule is written once. Bounds of a single field are in the instruction table (`Field.broken`);
here is what depends on the configuration or on several fields. Addresses are checked at access.

A rule is a condition under which an instruction is illegal, and a message. The conditions are
written for integers and hardware values alike (`spec.logic`): `problems` checks a decoded
instruction, `hw_gen.blocks.decode_rules` turns the same conditions into the decoder's logic. What
follows from a part that is already False is skipped for integers (`never`), which saves the golden
model most of the work.
"""

from collections.abc import Callable, Iterator, Mapping

from spec.config import NpuConfig
from spec.exhaustive import exhaustive
from spec.isa import (
    DISPLACED,
    FORMATS,
    INTERPOLATED,
    LOOPS,
    NO_LOOP,
    OPERAND_HIGH,
    OPERAND_LOW,
    REGIONS,
    SYNC_SLOTS,
    DType,
    Format,
    Instruction,
    IsaError,
    Opcode,
    Point,
    Reduce,
    Scale,
    Space,
    Table,
)
from spec.logic import Fields, Number, Truth, absent, among, bit, never, outside
from spec.numerics import RANGES, SHIFT_MAX, SHIFT_MIN
from spec.optional import Function, lacking

Rule = tuple[Truth, Callable[[], str]]
"""When an instruction is illegal; and what is wrong then (field, value, rule), for integers."""


_LAST_SEMAPHORE = FORMATS[Opcode.LOAD].field("wait.sem").maximum
_OPERANDS = (RANGES[DType.I8], RANGES[DType.U8])
"""By the flag `act_unsigned` or `wgt_unsigned`."""
_INT16 = RANGES[DType.I16]


class IllegalInstructionError(IsaError):
    """An instruction that no configuration, or not this one, can execute."""


def check_instruction(instruction: Instruction, config: NpuConfig) -> None:
    """Raise `IllegalInstructionError` with the first rule that `instruction` breaks on `config`."""
    for problem in problems(instruction, config):
        raise IllegalInstructionError(f"{instruction.opcode.name}.{problem}")


def problems(instruction: Instruction, config: NpuConfig) -> Iterator[str]:
    """Every broken rule: field, value, rule."""
    for broken, message in rules(instruction.opcode, instruction.values, config):
        if broken:
            yield message()


def rules(opcode: Opcode, v: Fields, config: NpuConfig) -> Iterator[Rule]:
    """Every rule for an instruction with the fields `v`."""
    fmt = FORMATS[opcode]
    if fmt.loops:
        yield from _sync(fmt, v, config)
        first = v["loop"][0]
        yield (
            first["last"] != first["count"],
            lambda: f"loop[0].last: value {first['last']} must equal its count {first['count']}",
        )
    yield from _RULES[opcode](v, config)
    for function in lacking(config, opcode):
        yield _lacks(function, v)
    if not config.program_loops:
        for name in DISPLACED.get(opcode, ()):
            yield _moves(f"{name}_by", v)


def _lacks(function: Function, v: Fields) -> Rule:
    """The instruction uses a function that the configuration does not have."""
    name = function.field
    return (
        function.uses(v),
        lambda: (
            f"{name}: value {v[name]:d}: needs {function.what}; this configuration has "
            f"{function.flag}=False"
        ),
    )


def _moves(name: str, v: Fields) -> Rule:
    """The instruction names a displacement where no section runs again."""
    return (
        v[name] != 0,
        lambda: f"{name}: value {v[name]}: must be 0; this configuration has program_loops=False",
    )


def _repeats(loop: Fields) -> Truth:
    """The loop has more than one iteration, at least sometimes."""
    return (loop["count"] > 1) | (loop["last"] > 1)


# Rules of several opcodes ------------------------------------------------------------------------


def _sync(fmt: Format, v: Fields, config: NpuConfig) -> Iterator[Rule]:
    for kind in ("wait", "post"):
        slots = v[kind]
        for i in range(SYNC_SLOTS):
            slot = slots[i]
            used = slot["amount"] != 0
            if not never(used):
                for broken, message in _slot(fmt, slot, v, config, f"{kind}[{i}]"):
                    yield used & broken, message


def _slot(fmt: Format, slot: Fields, v: Fields, config: NpuConfig, where: str) -> Iterator[Rule]:
    if config.semaphores <= _LAST_SEMAPHORE:
        yield (
            slot["sem"] >= config.semaphores,
            lambda: (
                f"{where}.sem: value {slot['sem']}: this configuration has semaphores "
                f"0…{config.semaphores - 1}"
            ),
        )
    yield (
        slot["level"] > fmt.loops,
        lambda: f"{where}.level: value {slot['level']} exceeds the {fmt.loops} loops",
    )
    yield (
        absent(among(slot["point"], *fmt.points)),
        lambda: (
            f"{where}.point: {Point(slot['point']).name}: {fmt.opcode.name} has only "
            f"{' and '.join(point.name for point in fmt.points)}"
        ),
    )
    if Point.WEIGHTS in fmt.points:
        yield (
            (slot["point"] == Point.WEIGHTS) & (slot["level"] > v["fold_loops"]),
            lambda: (
                f"{where}.level: value {slot['level']}: a WEIGHTS slot's level is at most "
                f"fold_loops={v['fold_loops']}"
            ),
        )


def _at_most(v: Fields, name: str, limit: int, what: str) -> Rule:
    return (
        v[name] > limit,
        lambda: f"{name}: value {v[name]} exceeds the configuration's {what}={limit}",
    )


def _fold_loop(v: Fields, name: str) -> Rule:
    return (
        (v[name] != NO_LOOP) & (v[name] >= v["fold_loops"]),
        lambda: (
            f"{name}: value {v[name]} must be a fold loop (below fold_loops={v['fold_loops']}) "
            f"or {NO_LOOP} for none"
        ),
    )


def _operand(v: Fields, stream: str) -> Rule:
    zp, is_unsigned = v[f"{stream}_zp"], v[f"{stream}_unsigned"]
    too_far: Truth = False
    for flag, (low, high) in enumerate(_OPERANDS):
        beyond = (low - zp < OPERAND_LOW) | (high - zp > OPERAND_HIGH)
        too_far = too_far | ((is_unsigned == flag) & beyond)

    def message() -> str:
        low, high = _OPERANDS[is_unsigned]
        return (
            f"{stream}_zp: value {zp}: operands {low}…{high} minus the zero point must lie in "
            f"{OPERAND_LOW}…{OPERAND_HIGH}"
        )

    return too_far, message


# Rules of one opcode -----------------------------------------------------------------------------


def _none(v: Fields, config: NpuConfig) -> Iterator[Rule]:
    yield from ()


def _region(v: Fields, config: NpuConfig) -> Iterator[Rule]:
    if config.regions < REGIONS:
        yield (
            v["region"] >= config.regions,
            lambda: (
                f"region: value {v['region']}: this configuration has regions "
                f"0…{config.regions - 1}"
            ),
        )


def _load(v: Fields, config: NpuConfig) -> Iterator[Rule]:
    yield from _region(v, config)
    yield (
        v["space"] == Space.ACC,
        lambda: "space: ACC: LOAD writes SPAD, PARAM or TABLE; use VECTOR to write the accumulator",
    )
    yield (
        (v["indexed"] != 0) & ((v["space"] != Space.SPAD) | (v["fill"] != 0)),
        lambda: (
            f"indexed: value 1: space is {Space(v['space']).name} and fill {v['fill']}; only a "
            "copy to SPAD takes indices"
        ),
    )
    aligned = among(v["space"], Space.PARAM, Space.TABLE) & absent(v["fill"])
    if never(aligned):
        return
    yield (
        aligned & (v["chip_base_by"] != 0),
        lambda: (
            f"chip_base_by: value {v['chip_base_by']}: {Space(v['space']).name} addresses are not "
            "displaced"
        ),
    )
    broken, message = _skew(v, config, "mem_base", v["mem_base"], v["chip_base"])
    yield aligned & broken, message
    for i in range(FORMATS[Opcode.LOAD].loops):
        loop = v["loop"][i]
        broken, message = _skew(v, config, f"loop[{i}].mem", loop["mem"], loop["chip"])
        yield aligned & _repeats(loop) & broken, message


def _skew(v: Fields, config: NpuConfig, name: str, mem: Number, chip: Number) -> Rule:
    bus = config.bus_bytes
    return (
        ((mem ^ chip) & (bus - 1)) != 0,
        lambda: (
            f"{name}: value {mem}: {Space(v['space']).name} runs need the same alignment on chip "
            f"({chip}) modulo bus_bytes={bus}"
        ),
    )


def _matrix(v: Fields, config: NpuConfig) -> Iterator[Rule]:
    for what, limit in (("rows", config.rows), ("cols", config.cols)):
        yield _at_most(v, what, limit, what)
        yield _at_most(v, f"{what}_last", limit, what)
    yield _fold_loop(v, "row_loop")
    yield _fold_loop(v, "col_loop")
    yield _operand(v, "act")
    yield _operand(v, "wgt")


def _repeat(v: Fields, config: NpuConfig) -> Iterator[Rule]:
    if not config.program_loops:
        yield True, lambda: "opcode: REPEAT: this configuration has program_loops=False"


def _depthwise(v: Fields, config: NpuConfig) -> Iterator[Rule]:
    if not config.depthwise:
        yield True, lambda: "opcode: DEPTHWISE: this configuration has no depthwise engine"
        return
    yield _at_most(v, "lanes", config.cols, "cols")
    yield _at_most(v, "lanes_last", config.cols, "cols")
    yield _at_most(v, "kernel_cols", config.taps, "taps")
    yield (
        v["stride"] > v["kernel_cols"],
        lambda: f"stride: value {v['stride']} exceeds kernel_cols={v['kernel_cols']}",
    )
    yield _fold_loop(v, "lane_loop")
    yield _operand(v, "act")
    yield _operand(v, "wgt")


def _vector(v: Fields, config: NpuConfig) -> Iterator[Rule]:
    yield _at_most(v, "lanes", config.cols, "cols")
    yield _at_most(v, "lanes_last", config.cols, "cols")
    yield (
        (v["lane_loop"] >= LOOPS) & (v["lane_loop"] != NO_LOOP),
        lambda: f"lane_loop: value {v['lane_loop']} must be 0…{LOOPS - 1} or {NO_LOOP}",
    )
    yield _accumulator_type(v, "a")
    yield _accumulator_type(v, "o")
    for operand in ("a", "b", "o"):
        yield _tensor_shift(v, operand)
    yield (
        (v["a_clamp"] != 0) & (v["a_min"] > v["a_max"]),
        lambda: f"a_min: value {v['a_min']} exceeds a_max={v['a_max']}",
    )
    yield (
        v["o_min"] > v["o_max"],
        lambda: f"o_min: value {v['o_min']} exceeds o_max={v['o_max']}",
    )
    yield _table_bound(v, "o_min")
    yield _table_bound(v, "o_max")
    yield from _reduction(v)


def _accumulator_type(v: Fields, operand: str) -> Rule:
    return (
        (v[f"{operand}_space"] == Space.ACC) & (v[f"{operand}_type"] != DType.I32),
        lambda: (
            f"{operand}_type: {DType(v[f'{operand}_type']).name}: must be I32 where "
            f"{operand}_space is ACC"
        ),
    )


def _tensor_shift(v: Fields, operand: str) -> Rule:
    shift = v[f"{operand}_shift"]
    return (
        (v[f"{operand}_scale"] == Scale.TENSOR) & outside(shift, SHIFT_MIN, SHIFT_MAX),
        lambda: (
            f"{operand}_shift: value {shift}: a RESCALE's shift lies in {SHIFT_MIN}…{SHIFT_MAX}"
        ),
    )


def _table_bound(v: Fields, name: str) -> Rule:
    return (
        among(v["table"], *INTERPOLATED) & outside(v[name], *_INT16),
        lambda: (
            f"{name}: value {v[name]}: with table={Table(v['table']).name} it must lie in "
            f"{_INT16[0]}…{_INT16[1]}"
        ),
    )


def _reduction(v: Fields) -> Iterator[Rule]:
    reduces = v["reduce"] != Reduce.NONE
    yield (
        absent(reduces) & (v["reduce_lanes"] != 0),
        lambda: "reduce_lanes: value 1: needs a reduction (reduce is NONE)",
    )
    if never(reduces):
        return
    mask, lane_loop = v["reduce_loops"], v["lane_loop"]
    over_lanes: Truth = False
    for i in range(LOOPS):
        over_lanes = over_lanes | (bit(mask, i) & (lane_loop == i))
    yield (
        reduces & over_lanes & absent(v["reduce_lanes"]),
        lambda: (
            f"lane_loop: value {lane_loop}: must not be a reduction loop "
            f"(reduce_loops={mask:#08b}) unless reduce_lanes is set"
        ),
    )
    inside: Truth = False
    for i in range(LOOPS):
        broken = inside & absent(bit(mask, i)) & _repeats(v["loop"][i])
        yield reduces & broken, _inner_loop(mask, i)
        inside = inside | bit(mask, i)


def _inner_loop(mask: int, i: int) -> Callable[[], str]:
    return lambda: (
        f"reduce_loops: value {mask:#08b}: loop {i} runs inside reduction loop "
        f"{(mask & -mask).bit_length() - 1} and must be one too"
    )


_RULES: Mapping[Opcode, Callable[[Fields, NpuConfig], Iterator[Rule]]] = exhaustive(
    "spec.legality",
    Opcode,
    {
        Opcode.BEGIN: _none,
        Opcode.END: _none,
        Opcode.REPEAT: _repeat,
        Opcode.LOAD: _load,
        Opcode.STORE: _region,
        Opcode.MATRIX: _matrix,
        Opcode.DEPTHWISE: _depthwise,
        Opcode.VECTOR: _vector,
    },
)
