"""Cost model of depthwise layers.

Cycles: the busiest of the depthwise, load, store and vector engines, plus what cannot overlap
(first load, last store).
"""

import math

from spec.config import NpuConfig
from spec.isa import Opcode
from sw.compiler.kernels.boxes import Box
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.depthwise.geometry import passes, units
from sw.compiler.kernels.depthwise.layer import DepthwiseLayer
from sw.compiler.kernels.depthwise.tiles import DepthwisePlan, heights
from sw.compiler.kernels.epilogue import epilogue_cycles
from sw.compiler.machine.costs import (
    DEPTHWISE_GROUP_BYTES,
    DEPTHWISE_TILE_BYTES,
    DEPTHWISE_UNIT_BYTES,
    HANDOVER,
    INSTRUCTION_CYCLES,
    MEMORY_LATENCY,
    SPLIT_RUN,
    columns_read,
)


class DepthwiseCost:
    """The cost of plans of one layer.

    `held_in`, `held_out`: see `DepthwisePlan`. `added`: the residual that is loaded. `finish`:
    cycles of the vector engine for a vector of sums.
    """

    def __init__(self, layer: DepthwiseLayer, config: NpuConfig, budget: MemoryBudget) -> None:
        self.layer, self.config = layer, config
        self.passes = passes(layer, config.taps)
        self.finish = epilogue_cycles(layer.epilogue, layer.residual, config, layer.output.shape[3])
        self.held_in = layer.input.tensor in budget.held
        self.held_out = layer.output.tensor in budget.held
        residual = None if layer.residual is None else layer.residual.operand.view
        self.added = None if residual is None or residual.tensor in budget.held else residual

    def of(self, plan: DepthwisePlan) -> tuple[int, int]:
        """(cycles, bytes moved)."""
        layer, config = self.layer, self.config
        bus, item = config.bus_bytes, layer.output.item
        n, oh, ow, c = layer.output.shape
        groups, blocks = -(-c // plan.tc), -(-c // config.cols)
        widths = _pieces(ow, plan.tw)
        images = n * groups
        full = list(heights(oh, plan.th, 0, False, False))
        with_edges = list(heights(oh, plan.th, plan.edge_rows, True, True))
        # Low tiles begin and end the layer, not each of its images.
        tiles = (images * len(full) + len(with_edges) - len(full)) * len(widths)
        row = sum(self._row_cycles(x, min(x + plan.tw, ow)) for x in range(0, ow, plan.tw))
        in_cols = sum(self._extent(1, w) for w in widths)
        in_rows = n * sum(self._extent(0, rows) for rows in full)
        in_rows += sum(self._extent(0, r) for r in with_edges) - sum(
            self._extent(0, r) for r in full
        )
        per_tile = self._units(plan.th, plan.tw, plan.tc)
        engine = n * oh * row * blocks + INSTRUCTION_CYCLES[Opcode.DEPTHWISE] * tiles * per_tile
        fetch = (
            tiles * (per_tile * DEPTHWISE_UNIT_BYTES + DEPTHWISE_TILE_BYTES)
            + groups * DEPTHWISE_GROUP_BYTES
        )
        once = math.prod(layer.kernel) * layer.output.shape[3]
        once += len(layer.epilogue.param_passes) * blocks * config.param_entry_bytes
        act = 0 if self.held_in else in_rows * in_cols * c
        out = 0 if self.held_out else n * oh * ow * c * item
        if self.added is not None:
            once += n * oh * ow * c * self.added.item
        load = (act + once + fetch) / bus
        if act:
            load += self._run_cycles(plan, in_rows, layer.input.shape[2] == in_cols, tiles)
        store = out / bus
        if out:
            store += self._run_cycles(plan, n * oh, len(widths) == 1, tiles)
        # The epilogue empties the accumulator, whatever the kernel, a vector a cycle or slower.
        vector = self.finish * n * oh * ow * blocks
        vector += len(layer.epilogue.passes) * INSTRUCTION_CYCLES[Opcode.VECTOR] * tiles * per_tile
        # With few slots a tile is loaded only after an earlier one has been computed.
        turn = (load + engine) / tiles + MEMORY_LATENCY
        # The engine stops where loads do not come as fast as tiles are computed.
        loads = load if self.held_in else max(load, tiles * turn / plan.act_slots)
        start = self._start(plan, with_edges, widths[0], load / max(1, in_rows * groups))
        last = with_edges[-1] * ow * min(plan.tc, c)
        tail = self.finish * min(last / config.cols, self.config.acc_bank)
        tail += HANDOVER if self.held_out else last * item / bus + 3 * MEMORY_LATENCY
        cycles = max(engine + start, loads + MEMORY_LATENCY + engine / tiles, store, vector) + tail
        return math.ceil(cycles), act + once + out + fetch

    def _row_cycles(self, x0: int, x1: int) -> int:
        """Cycles of the engine for outputs x0…x1 of a row of one channel block.

        Each input column is read once per kernel row, or together with another one; those outside
        the input cost nothing.
        """
        layer = self.layer
        width, total = layer.input.shape[2], 0
        for p in self.passes:
            first = x0 * layer.stride[1] - layer.pad[1] + p.kw0 * layer.dilation[1]
            reads = columns_read(x1 - x0, p.stride, p.cols, self.config)
            # Columns outside the input take no read, and no cycle.
            total += p.rows * sum(
                any(0 <= first + p.step * c < width for c in columns) for columns in reads
            )
        return total

    def _extent(self, axis: int, outputs: int) -> int:
        """Input rows (axis 0) or columns that `outputs` read, padding not subtracted."""
        layer = self.layer
        reach = (layer.kernel[axis] - 1) * layer.dilation[axis]
        size = (outputs - 1) * layer.stride[axis] + reach + 1
        return min(size, layer.input.shape[1 + axis])

    def _units(self, th: int, tw: int, tc: int) -> int:
        box = Box(batch=0, y0=0, y1=th, x0=0, x1=tw, c0=0, c1=tc)
        return len(self.passes) * len(list(units(box, self.config.cols, self.config.acc_bank)))

    def _run_cycles(self, plan: DepthwisePlan, rows: int, whole: bool, tiles: int) -> float:
        """Bus cycles lost to runs of less than whole bus words: one each where runs are short."""
        c = self.layer.output.shape[3]
        if plan.tc == c:
            return SPLIT_RUN * (tiles if whole else rows)
        bus = self.config.bus_bytes
        # Slices of channels: a run a pixel, each with partial words unless all is aligned.
        aligned = plan.tc % bus == 0 and c % bus == 0
        pixels = rows * self.layer.input.shape[2] * -(-c // plan.tc)
        return 0.0 if aligned else pixels

    def _start(self, plan: DepthwisePlan, rows_of: list[int], tw: int, row: float) -> float:
        """Cycles that the engine waits for loads at the beginning. `row`: to load an input row."""
        layer, config = self.layer, self.config
        kh, kw = layer.kernel
        if self.held_in:
            return 0.0
        loaded = (
            MEMORY_LATENCY
            + (kh * kw * plan.tc + DEPTHWISE_GROUP_BYTES + DEPTHWISE_TILE_BYTES) / config.bus_bytes
        )
        blocks = -(-plan.tc // config.cols)
        done = work = 0.0
        # After a few tiles loads are ahead, or will never be.
        for rows in rows_of[:8]:
            loaded += self._extent(0, rows) * row
            cycles = rows * self._row_cycles(0, tw) * blocks
            done = max(done, loaded) + cycles
            work += cycles
        return done - work


def _pieces(size: int, step: int) -> list[int]:
    return [min(step, size - at) for at in range(0, size, step)]
