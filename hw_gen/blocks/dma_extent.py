"""Where a run of LOAD or STORE lies in its region, and whether that is inside."""

from amaranth.hdl import *
from amaranth.lib import data

from spec.isa import MEM_BITS, REGIONS
from spec.memmap import LIMIT_BITS


def extent_layout() -> data.StructLayout:
    """`offset` of a run's first byte in `region`, and the last offset at which the run fits
    (`room`: the limit less the run's bytes; below 0 where it fits nowhere)."""
    return data.StructLayout(
        {"region": range(REGIONS), "offset": MEM_BITS, "room": signed(LIMIT_BITS + 1)}
    )


def leaves(extent) -> Value:
    """The run does not lie in its region as a whole."""
    near, far = extent.offset[:LIMIT_BITS], extent.offset[LIMIT_BITS:]
    return extent.room[-1] | far.any() | (near > extent.room[:LIMIT_BITS])
