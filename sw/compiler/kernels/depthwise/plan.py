"""Tile search for depthwise layers.

A tile is a box of outputs: rows of all columns if they fit, and either all channels (whole pixels
make the longest runs on the bus) or some, of all rows (nothing is read twice). The first tiles are
low and grow, so that the engine starts early; the last one is low, so that little is left to do
when the engine ends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from spec.config import NpuConfig
from sw.compiler.errors import CompileError
from sw.compiler.kernels.boxes import halvings
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.depthwise.cost import DepthwiseCost
from sw.compiler.kernels.depthwise.layer import DepthwiseLayer
from sw.compiler.kernels.depthwise.tiles import DepthwisePlan

SHARE = 4
"""Part of the scratchpad (1/SHARE) that a layer may fill without regard to the next one."""

EDGE_ROWS = (1, 2, 4)
"""Rows of the first and of the last tile that are tried."""

MAX_TILES = 400
"""Plans of more tiles are not looked at unless nothing else fits."""


def plan_depthwise(layer: DepthwiseLayer, config: NpuConfig, budget: MemoryBudget) -> DepthwisePlan:
    """The best plan that fits in `budget`; `CompileError` if not even the smallest does."""
    search = _Search(layer, config, budget)
    plans = list(search.plans())
    if not plans:
        raise CompileError(
            f"no tile of this layer fits in {budget.buffer_bytes} bytes of scratchpad",
            node=layer.name,
            source=layer.source,
            hint="use a configuration with a larger scratchpad, or a smaller kernel",
        )
    plans += [with_edges for p in _within(plans, 1.15) for with_edges in search.with_edges(p)]

    def rank(plan: DepthwisePlan) -> tuple[int, int]:
        # What is held beyond a fair share is missing where the next layer would load ahead.
        return plan.traffic + max(0, plan.spad_bytes - config.spad_bytes // SHARE), plan.cycles

    return min(_within(plans, 1.01), key=rank)


def _within(plans: Sequence[DepthwisePlan], factor: float) -> list[DepthwisePlan]:
    """The plans that take at most `factor` times the cycles of the fastest."""
    limit = factor * min(p.cycles for p in plans)
    return [p for p in plans if p.cycles <= limit]


class _Search:
    """The candidates of one layer."""

    def __init__(self, layer: DepthwiseLayer, config: NpuConfig, budget: MemoryBudget) -> None:
        self.layer, self.config, self.budget = layer, config, budget
        self.cost = DepthwiseCost(layer, config, budget)
        self.held_in, self.held_out = self.cost.held_in, self.cost.held_out
        self.added = self.cost.added

    def plans(self) -> Iterator[DepthwisePlan]:
        """Candidates: whole rows if they fit; the smallest possible tile as a last resort."""
        _, oh, ow, c = self.layer.output.shape
        if self.budget.streams(self.layer.input, self.config):
            # Whole images, so that the layer follows its input channel by channel.
            cut = [self._sized(oh, ow, tc) for tc in halvings(c, self.config.cols)]
            if any(cut):
                yield from (plan for plan in cut if plan is not None)
                return
        found = False
        for tw in halvings(ow, 1):
            if tw > self.config.acc_bank:
                # A row of outputs accumulates in one bank.
                continue
            for tc in halvings(c, self.config.cols):
                for th in _heights_tried(oh):
                    tiles = -(-oh // th) * -(-ow // tw) * -(-c // tc) * self.layer.output.shape[0]
                    if tiles > MAX_TILES and (found or th < oh):
                        continue
                    plan = self._sized(th, tw, tc)
                    if plan is not None:
                        found = True
                        yield plan
            if found:
                # Narrower tiles read their halo more often.
                return
        tall = list(self._tall())
        yield from tall
        if tall:
            return
        smallest = self._sized(1, 1, min(c, self.config.cols))
        if smallest is not None:
            yield smallest

    def _tall(self) -> Iterator[DepthwisePlan]:
        """Tiles of few of very many rows, however many tiles that makes."""
        _, oh, ow, c = self.layer.output.shape
        for tw in halvings(ow, 1):
            th = oh if tw <= self.config.acc_bank else 1
            while th > 1:
                th = -(-th // 2)
                plan = self._sized(th, tw, min(c, self.config.cols))
                if plan is not None:
                    yield plan
                    return

    def with_edges(self, plan: DepthwisePlan) -> Iterator[DepthwisePlan]:
        """The plan with a low first and last tile."""
        if not self.held_in:
            yield from (self._costed(replace(plan, edge_rows=r)) for r in EDGE_ROWS if r < plan.th)

    def _sized(self, th: int, tw: int, tc: int) -> DepthwisePlan | None:
        """A plan for this tile with as many slots as fit."""
        layer, config = self.layer, self.config
        n, oh, ow, c = layer.output.shape
        _, h, w, _ = layer.input.shape
        kh, kw = layer.kernel
        rows = min(h, (th - 1) * layer.stride[0] + (kh - 1) * layer.dilation[0] + 1)
        cols = min(w, (tw - 1) * layer.stride[1] + (kw - 1) * layer.dilation[1] + 1)
        groups, word = -(-c // tc), config.word_bytes
        tiles = n * -(-oh // th) * -(-ow // tw) * groups
        act, wgt = rows * cols * tc, kh * kw * tc
        out = th * tw * tc * layer.output.item
        res = 0 if self.added is None else th * tw * tc * self.added.item
        act, wgt, out, res = (-(-size // word) * word for size in (act, wgt, out, res))
        act, out = (0 if self.held_in else act), (0 if self.held_out else out)
        # Low first and last tiles may cut a single one in two.
        turns = tiles + (th > 1)
        for ahead in range(min(3, turns), 0, -1):
            # Weights serve all tiles of their channels; one set more is loaded ahead.
            act_slots = 0 if self.held_in else ahead
            wgt_slots = groups if self.budget.row_order else min(groups, ahead + 1)
            readers = len(layer.epilogue.param_passes)
            entries = readers * -(-tc // config.cols) * wgt_slots
            most = config.param_entries // (2 if self.budget.row_order else 1)
            # Row by row, a layer comes back to all its channels: their parameters must all stay.
            if entries > most:
                continue
            plan = DepthwisePlan(
                th=th,
                tw=tw,
                tc=tc,
                ahead=ahead,
                held_in=self.held_in,
                held_out=self.held_out,
                shared=self.budget.shares_acc,
                row_order=self.budget.row_order,
                act_slots=act_slots,
                wgt_slots=wgt_slots,
                out_slots=0 if self.held_out else min(2, turns),
                act_bytes=act,
                wgt_bytes=wgt,
                out_bytes=out,
                res_slots=ahead + 1 if res else 0,
                res_bytes=res,
            )
            if plan.spad_bytes <= self.budget.buffer_bytes:
                return self._costed(plan)
        return None

    def _costed(self, plan: DepthwisePlan) -> DepthwisePlan:
        cycles, traffic = self.cost.of(plan)
        return replace(plan, cycles=cycles, traffic=traffic)


def _heights_tried(size: int) -> list[int]:
    """Heights that cut `size` nearly equally, largest first."""
    return sorted({-(-size // k) for k in (1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 20, 28, size)})[::-1]
