"""DEPTHWISE: rows of outputs, each lane convolving its own channel, into the accumulator."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from golden_model import depthwise_boxes
from golden_model.access import Context
from golden_model.clocks import Timeline
from golden_model.errors import UndefinedError
from golden_model.loops import Bools, Ints, wrapped_position
from golden_model.operands import Shape, shape_of
from golden_model.program import Plan
from golden_model.values import BLOCK, Floats, activations, operands
from golden_model.widths import CHIP_MASK, VECTOR_MASK

_ISSUE, _DONE = Timeline.DEPTHWISE_ISSUE, Timeline.DEPTHWISE_DONE


class DepthwiseEngine:
    """Executes chunks; it keeps the weights while no fold loop steps."""

    def __init__(self) -> None:
        self._weights: Floats | None = None

    def execute(self, context: Context, plan: Plan, chunk: int) -> None:
        """Execute one chunk of a DEPTHWISE."""
        _check_row(plan)
        if depthwise_boxes.execute(context, plan, chunk):
            return
        rows = Rows(context, plan, chunk, shape_of(plan, chunk))
        if self._weights is None or plan.chunks.starts[chunk] <= plan.v["fold_loops"]:
            self._weights = rows.read_weights()
        rows.check_reads()
        context.reads_done(_ISSUE, _DONE)
        target = rows.targets()
        fresh = not plan.v["accumulate"]
        context.accumulator(target.reshape(-1), fresh, _DONE, plan.index)
        # Every product is at most 2^16 and there are at most 64 taps: exact in float32.
        size = max(1, BLOCK // (plan.v["kernel_rows"] * rows.columns.size * context.config.cols))
        for at in range(0, rows.shape.size, size):
            part = slice(at, at + size)
            sums = rows.products(self._weights, part).astype(np.int32)
            rows.accumulate(target[part], sums)


def _check_row(plan: Plan) -> None:
    """The outputs of a step go to different accumulator vectors."""
    outputs, pitch = plan.v["outputs"], plan.v["acc_col"]
    if "row" not in plan.cache:
        plan.cache["row"] = np.unique(np.arange(outputs) * pitch & VECTOR_MASK).size == outputs
    if not plan.cache["row"]:
        raise UndefinedError(
            f"depthwise at instruction {plan.index}: acc_col {pitch} takes several of the "
            f"{outputs} outputs of a step to one accumulator vector; they must be distinct"
        )


@dataclass(slots=True)
class Rows:
    """The steps of one chunk, one row of outputs each.

    kernel: [kernel_rows]; columns: [columns of the input that a row of outputs needs].
    """

    context: Context
    plan: Plan
    chunk: int
    shape: Shape

    @property
    def kernel(self) -> Ints:
        return np.arange(self.plan.v["kernel_rows"])

    @property
    def columns(self) -> Ints:
        v = self.plan.v
        return np.arange((v["outputs"] - 1) * v["stride"] + v["kernel_cols"])

    def offset(self, base: str, stride: str) -> Ints:
        """[steps]: base plus the loops' strides."""
        return self.shape.steps.offset(stride) + (
            self.plan.v[base] + self.plan.chunks.offset(stride, self.chunk)
        )

    # Weights ------------------------------------------------------------------------------------

    def read_weights(self) -> Floats:
        """[steps or 1, kernel_rows, kernel_cols, cols]: one for all if the chunk has one fold.

        Lanes that are not in use hold anything.
        """
        context, v, cols = self.context, self.plan.v, self.context.config.cols
        kernel = self.kernel[:, None] * v["wgt_row"] + np.arange(v["kernel_cols"]) * v["wgt_col"]
        fold = self._folds()
        for n in self.shape.counts:
            wanted = (fold[self.shape.lanes == n, None, None] + kernel) & CHIP_MASK
            context.read("spad", wanted.reshape(-1), n, _ISSUE, self.plan.index)
        places, of_step = np.unique(fold, return_inverse=True)
        address = (places[:, None, None] + kernel) & CHIP_MASK
        values = np.empty((*address.shape, cols), np.float32)
        operands(context, address, cols, v, "wgt", values)
        return values[of_step] if places.size > 1 else values

    def _folds(self) -> Ints:
        """[steps]: where the weights of each step begin."""
        plan, steps = self.plan, self.shape.steps
        fold = np.full(steps.size, plan.v["wgt_base"])
        outer = plan.chunks.steps.index[:, self.chunk]
        for i in range(plan.v["fold_loops"]):
            index = outer[i] if i < plan.level else steps.index[i - plan.level]
            fold += index * plan.loops[i]["wgt"]
        return fold

    # Activations --------------------------------------------------------------------------------

    def addresses(self, part: slice) -> tuple[Ints, Bools | None]:
        """[steps, kernel_rows, columns]: addresses, and which are in the input (None: all)."""
        v, kernel, columns = self.plan.v, self.kernel, self.columns
        window = kernel[:, None] * v["act_row"] + columns * v["act_col"]
        address = (self.offset("act_base", "act")[part, None, None] + window) & CHIP_MASK
        y = wrapped_position(self.offset("y0", "dy")[part, None] + kernel * v["row_step"])
        x = wrapped_position(self.offset("x0", "dx")[part, None] + columns * v["col_step"])
        good_y, good_x = (y >= 0) & (y < v["height"]), (x >= 0) & (x < v["width"])
        if good_y.all() and good_x.all():
            return address, None
        return address, good_y[:, :, None] & good_x[:, None, :]

    def check_reads(self) -> None:
        """Every activation byte: within the scratchpad, written, and ordered."""
        address, inside = self.addresses(slice(None))
        for n in self.shape.counts:
            chosen = self.shape.lanes == n
            wanted = address[chosen]
            wanted = wanted.reshape(-1) if inside is None else wanted[inside[chosen]]
            self.context.read("spad", wanted, n, _ISSUE, self.plan.index)

    def products(self, weights: Floats, part: slice) -> Floats:
        """[steps, outputs, cols]: the sums over the kernel."""
        v, cols = self.plan.v, self.context.config.cols
        address, inside = self.addresses(part)
        values = activations(self.context, address, inside, cols, v)
        if weights.shape[0] > 1:
            weights = weights[part]
        last = (v["outputs"] - 1) * v["stride"] + 1
        sums = np.zeros((values.shape[0], v["outputs"], cols), np.float32)
        for k in range(v["kernel_rows"]):
            for t in range(v["kernel_cols"]):
                column = values[:, k, t : t + last : v["stride"]]
                sums += column * weights[:, None, k, t]
        sums *= np.arange(cols) < self.shape.lanes[part, None, None]
        return sums

    # Accumulator --------------------------------------------------------------------------------

    def targets(self) -> Ints:
        """[steps, outputs]: accumulator vectors."""
        v = self.plan.v
        within = np.arange(v["outputs"]) * v["acc_col"]
        return (self.offset("acc_base", "acc")[:, None] + within) & VECTOR_MASK

    def accumulate(self, target: Ints, sums: NDArray[np.int32]) -> None:
        """Add to, or replace, what the accumulator holds; later steps win."""
        acc = self.context.state.acc
        if not self.plan.v["accumulate"]:
            acc[target] = sums
        elif np.unique(target).size == target.size:
            acc[target] += sums
        else:
            np.add.at(acc, target, sums)
