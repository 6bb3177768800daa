"""Rules of elementwise operators, conversions and TABLE (TOSA 1.0, chapter 2)."""

from sw.compiler.tosa.operators.checker import (
    ANY,
    INTS,
    Checker,
    Infer,
    Shape,
    broadcast,
    same_type,
)


def unary(*dtypes: str) -> Infer:
    """One operand of one of `dtypes`; the result has its shape and type."""

    def infer(c: Checker, _: str) -> tuple[Shape, str]:
        return c["input1"].shape, c.dtype("input1", *dtypes)

    return infer


def binary(*dtypes: str, result: str = "") -> Infer:
    """Two operands of one of `dtypes` that broadcast; `result`: another type than theirs."""

    def infer(c: Checker, _: str) -> tuple[Shape, str]:
        c.dtype("input1", *dtypes)
        dtype = same_type(c, "input1", "input2")
        return broadcast(c, "input1", "input2"), result or dtype

    return infer


def mul(c: Checker, _: str) -> tuple[Shape, str]:
    c.dtype("input1", *INTS)
    dtype = same_type(c, "input1", "input2")
    c.dtype("shift", "int8")
    shape = c["shift"].shape
    c.require(shape == (1,), f"shift {list(shape)} must be [1]: one element")
    shift = int(c.constant("shift").reshape(-1)[0])
    most = 63 if dtype == "int32" else 0
    c.require(0 <= shift <= most, f"shift={shift}: must be 0…{most} for {dtype}")
    return broadcast(c, "input1", "input2"), "int32"


def negate(c: Checker, _: str) -> tuple[Shape, str]:
    dtype = c.dtype("input1", *INTS)
    c.zero_point("input1_zp", dtype)
    c.zero_point("output_zp", dtype)
    return c["input1"].shape, dtype


def select(c: Checker, _: str) -> tuple[Shape, str]:
    c.dtype("input1", "bool")
    c.dtype("input2", *ANY)
    dtype = same_type(c, "input2", "input3")
    return broadcast(c, "input1", "input2", "input3"), dtype


def clamp(c: Checker, _: str) -> tuple[Shape, str]:
    dtype = c.dtype("input", "int8", "int16")
    low, high = c.op.attributes["min_val"], c.op.attributes["max_val"]
    c.require(low <= high, f"min_val={low} is above max_val={high}")
    return c["input"].shape, dtype


def table(c: Checker, _: str) -> tuple[Shape, str]:
    dtype = c.dtype("input1", "int8", "int16")
    c.dtype("table", dtype)
    shape, entries = c["table"].shape, 256 if dtype == "int8" else 513
    c.require(shape == (entries,), f"table {list(shape)} must be [{entries}] for {dtype}")
    # int16 is interpolated: 16 bits of entry and 7 of fraction.
    return c["input1"].shape, "int8" if dtype == "int8" else "int32"


def cast(c: Checker, out: str) -> tuple[Shape, str]:
    source = c.dtype("input", *ANY)
    c.require(out in ANY, f"output dtype {out!r}: must be {', '.join(ANY)}")
    c.require(out != source, f"a cast from {source} to itself", "use IDENTITY")
    return c["input"].shape, out


def rescale(c: Checker, out: str) -> tuple[Shape, str]:
    a = c.op.attributes
    source, shape = c.dtype("input", *INTS), c["input"].shape
    c.require(out in INTS, f"output dtype {out!r}: must be int8, int16 or int32")
    c.require(not a["per_channel"] or bool(shape), "per_channel needs an input of rank 1 or more")
    lanes = shape[-1] if a["per_channel"] else 1
    for operand in ("multiplier", "shift"):
        got = c[operand].shape
        c.require(
            got == (lanes,),
            f"{operand} {list(got)} must be [{lanes}] (per_channel={a['per_channel']})",
        )
    c.dtype("multiplier", "int32" if a["scale32"] else "int16")
    c.dtype("shift", "int8")
    multiplier, shift = c.constant("multiplier"), c.constant("shift")
    c.require(bool((multiplier >= 0).all()), "multiplier must not be negative")
    c.require(
        bool(((shift >= 2) & (shift <= 62)).all()),
        f"shift {shift.min()}…{shift.max()}: must lie in 2…62",
    )
    mode = a["rounding_mode"]
    c.require(
        mode == "SINGLE_ROUND", f"rounding_mode={mode}: only SINGLE_ROUND is in the integer profile"
    )
    from_unsigned, to_unsigned = a["input_unsigned"], a["output_unsigned"]
    c.require(
        not (from_unsigned and to_unsigned), "input_unsigned and output_unsigned exclude each other"
    )
    for flag, is_set in (("input_unsigned", from_unsigned), ("output_unsigned", to_unsigned)):
        c.require(
            not is_set or "int32" not in (source, out), f"{flag} does not go with int32 operands"
        )
    c.zero_point("input_zp", source, unsigned=from_unsigned)
    c.zero_point("output_zp", out, unsigned=to_unsigned)
    return shape, out
