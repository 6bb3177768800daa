"""Cost model of pools: the vector engine for a window. For the rest see `vector.cost`."""

from spec.config import NpuConfig
from spec.isa import Alu, Reduce
from sw.compiler.kernels.pool.layer import PoolLayer
from sw.compiler.kernels.pool.taps import TapRate, paired_taps
from sw.compiler.kernels.views import DTYPE
from sw.compiler.kernels.windows import WindowAxis
from sw.compiler.machine.costs import DEPENDENT_STEP_CYCLES, VECTOR_TILE_CYCLES
from sw.compiler.program.cycles import lane_parts, vector_cycles
from sw.compiler.program.records import Vector, VectorFields, VectorLoop


def pair_fields(layer: PoolLayer) -> VectorFields:
    """How a step takes a second tap: as operand B, of the same tensor."""
    return VectorFields(
        alu=Alu.ADD if layer.average else Alu.MAX,
        b_type=DTYPE[layer.input.dtype],
        b_zp=layer.input_zp,
    )


def tap_rate(layer: PoolLayer, config: NpuConfig, channels: int) -> TapRate:
    """Cycles of a step for a vector of so many channels, or of as many as a vector has."""
    lanes = min(config.cols, channels)
    one = VectorFields(a_type=DTYPE[layer.input.dtype], a_zp=layer.input_zp, lanes=lanes)
    one |= VectorFields(reduce=Reduce.SUM if layer.average else Reduce.MAX, reduce_loops=1)
    loop = [VectorLoop(count=1)]
    return TapRate(
        one=vector_cycles(Vector(**one, loop=loop), config),
        two=vector_cycles(Vector(**(one | pair_fields(layer)), loop=loop), config),
        once=layer.average,
    )


def window_cycles(layer: PoolLayer, config: NpuConfig) -> float:
    """Cycles for a vector of results: of its steps, and one for the RESCALE of an average."""
    channels = layer.output.shape[3]
    rate = tap_rate(layer, config, channels)
    other = layer.kernel[1], layer.kernel[0]
    rows, cols = (
        sum(taps.cycles(rate) for taps in paired_taps(axis, 0, axis.out, rate, each)) / axis.out
        for axis, each in zip(WindowAxis.of(layer, (1, 1)), other, strict=True)
    )
    if layer.is_separate(config.cols):
        return rows * layer.stride[1] * layer.row_share(config.cols) + cols
    rescale = lane_parts(config, channels) * (layer.average and not layer.sums)
    return min(rows * other[0], cols * other[1]) + rescale


def tile_cycles(layer: PoolLayer, config: NpuConfig) -> int:
    """Cycles of a tile besides its vectors: of two VECTORs the second waits for the first."""
    second = VECTOR_TILE_CYCLES + DEPENDENT_STEP_CYCLES
    return VECTOR_TILE_CYCLES + layer.is_separate(config.cols) * second
