"""Functions of several VECTORs: exponentials of scores, reciprocals, activations by TABLE.

They compute, operator for operator, what `spec/sequences` says and the compiler emits, so that a
kernel with them has the compiler's numbers.
"""

import numpy as np

from spec.names import did_you_mean
from spec.sequences.rows import leading_zeros
from spec.sequences.softmax import exponent_range, reach_of
from spec.sequences.unary import FUNCTIONS, STEP, entries16, tabled
from sw.language.source import caller
from sw.language.values import Expression, Tile, Values, keep


def exponentials(scores: Tile, step: float, levels: int = 0) -> tuple[Expression, int]:
    """(e^(step · (x − the largest of its row)) as int32, the value of e^0): a softmax's first half.

    `scores`: int32 […, keys], of which an integer stands for `step`. `levels`: e^0 is as many times
    2^14, so that to requantize by one step a level is a part of the TABLE. 0: sums of a row fit in
    int32.
    """
    if not 0 <= levels <= 255:
        raise scores.trace.error(f"levels {levels}: must lie in 0…255", caller())
    try:
        peak = levels * STEP or exponent_range(scores.shape[-1])[0]
        reach = reach_of(peak)
    except ValueError as error:
        raise scores.trace.error(str(error), caller()) from None
    ratio = step * 32768 / reach
    entries, _ = entries16(lambda v: np.exp(np.minimum(v, 0)), reach / 32768, peak)
    top = keep(scores.max())
    below = (scores.rescale(ratio) - top.rescale(ratio)).to("int16")
    return below.lookup(np.array(entries, np.int16)), peak * STEP


def reciprocal(values: Tile, low: int, high: int) -> tuple[Expression, float]:
    """(integers r, factor): 1 / v is about r · factor, for int32 v in low…high.

    The relative error is at most 2^−14 where high / low is up to 2^8.
    """
    if not 1 <= low <= high < 1 << 31:
        raise values.trace.error(f"reciprocal of {low}…{high}: 1 <= low <= high < 2^31", caller())
    fewest = leading_zeros(high)
    lost = max(0, leading_zeros(low) - fewest - 8)
    entries, step = entries16(lambda x: 1 / (1.5 + x), 2.0**-16)
    zeros = keep(values.leading_zeros())
    # v << zeros is 2^31·(m − 2) as a signed number, 1 <= m < 2. The table is over m − 1.5.
    centred = ((values << zeros).rescale(2.0**-15) + (1 << 15)).to("int16")
    wide = centred.lookup(np.array(entries, np.int16))
    if lost:
        wide = wide.rescale(2.0**-lost)
    return wide << (zeros - fewest), step / STEP * 2.0 ** (lost + fewest - 31)


def activation(
    name: str,
    values: Values,
    in_scale: float,
    out_scale: float,
    *,
    in_zero: int = 0,
    out_zero: int = 0,
) -> Expression:
    """gelu, silu, tanh, sigmoid … of int8 to int8, each value rounded correctly, by one TABLE."""
    if name not in FUNCTIONS:
        near = did_you_mean(name, FUNCTIONS)
        raise values.trace.error(
            f"activation {name!r}: must be one of {', '.join(FUNCTIONS)}{near}", caller()
        )
    table = tabled(
        FUNCTIONS[name][0],
        in_scale,
        out_scale,
        in_dtype="int8",
        out_dtype="int8",
        in_zp=in_zero,
        out_zp=out_zero,
    )
    (entries,) = table.constants.values()
    return values.to("int8").lookup(entries.astype(np.int8))
