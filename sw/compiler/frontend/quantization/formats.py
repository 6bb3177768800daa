"""Which integers stand for a value: decided by who reads it.

- int8, a scale per channel: only linear layers read it, with fixed scales (`smoothing.py`);
- int8, one scale and a zero point: only convolutions read it, or linear layers the features of
  whole images or what is hardly below zero (`ends.py`); or a scale for each channel where one loses
  much (`channels.py`);
- int8, one scale: only products of activations and convolutions read it, maybe moved about; or
  linear layers read a product of activations, moved about, and it costs them little;
- int32, the scale of a product: only a softmax reads it;
- int16, one scale: everything else; sums and what they add have the same (`streams.py`).

Integers are int32, exactly; bools are TOSA's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Node

from sw.compiler.frontend.nodes import aten, is_float, kind
from sw.compiler.frontend.operator_sets import MOVES, PRODUCTS, Plan
from sw.compiler.frontend.plan import Planner, linear_weight
from sw.compiler.frontend.quantization.averages import is_summed
from sw.compiler.frontend.quantization.calibrate import Ranges
from sw.compiler.frontend.quantization.channels import Reader, image_scales, wide_scales
from sw.compiler.frontend.quantization.ends import affine
from sw.compiler.frontend.quantization.precise import (
    FINE,
    FINER,
    exact_values,
    factors_of,
    layers,
    wide_layers,
)
from sw.compiler.frontend.quantization.precision import PLAIN, Precision, Width
from sw.compiler.frontend.quantization.smoothing import GAIN, Rows, Smoothing, choose
from sw.compiler.frontend.quantization.streams import maker, stream_steps
from sw.compiler.frontend.quantization.values import TINY, Grid
from sw.compiler.frontend.quantization.values import Format as Format
from sw.compiler.frontend.quantization.values import Scale as Scale
from sw.compiler.frontend.quantization.wholes import whole_step
from sw.compiler.frontend.weights import Matrix
from sw.compiler.frontend.windows import output_first, windows

HEADROOM = 1.5
"""int16 reaches this many times the largest value of the calibration; int8 saturates there.

Steps of int16 cost little beside those of int8, less than what saturates in new inputs.
"""

_CHANNELLED = ("convolution", "bounded", "univariate", "add", "sub", "multiply", "affine")
"""Rules whose result may have a scale for each channel of an image."""

_NORMS = ("layer_norm", "rms_norm", "group_norm")

_ROOM = 1.25
"""Values of 16 bits reach this many times as far as those of int8: new inputs saturate less."""


def _unit(largest: float) -> float:
    """A magnitude to divide a range by: what calibration saw only at zero may have any scale."""
    return largest if largest > TINY else 1.0


def halved(form: Format, width: Width) -> Format:
    """An int8 format as that of the high half of 16 bits: with room for the low half."""
    low = FINER[width] // 2 + 1  # so far on both sides of the zero point
    zero = min(max(form.zero_point, low - 128), 127 - low)
    return replace(form, scale=form.scale * 255 / (255 - low), zero_point=zero)


def _high(form: Format, width: Width) -> Format:
    """`halved`, of a value that new inputs may exceed."""
    return halved(replace(form, scale=_ROOM * form.scale), width)


def exact(node: Node) -> Format:
    """The format of integers and of bools."""
    return Format(dtype="bool" if kind(node) == "bool" else "int32", scale=1.0)


class Formats:
    """Formats of the values of one graph. `rows`: see `Rows`."""

    def __init__(
        self, planner: Planner, ranges: Ranges, rows: Rows = "auto", wanted: Precision = PLAIN
    ) -> None:
        self.planner, self.ranges = planner, ranges
        self.precise = wide_layers(planner, wanted)
        self.rows: Rows = rows
        self.widths = {name: self.precise.get(n, "int8") for name, n in layers(planner)}
        self._exact = exact_values(planner, self.precise)
        self._wholes = planner.wholes
        self._made: dict[Node, Format] = {}
        self._smoothings: dict[Node, Smoothing] = {}
        self._channels: dict[Node, NDArray[np.float64] | None] = {}

    def readers(self, node: Node) -> Iterator[tuple[Node, Node, bool]]:
        """(reader, the operand that it reads, whether moves or scalings lie between)."""
        for reader in self.planner.readers.get(node, ()):
            plan = self.planner.plans.get(reader)
            if plan is not None and (plan.rule in ("same", "scale") or reader.target in MOVES):
                for last, operand, moved in self.readers(reader):
                    yield last, operand, moved or plan.rule != "same"
            else:
                yield reader, node, False

    def of(self, node: Node) -> Format:
        """The format of the value that `node` makes."""
        if node not in self._made:
            self._made[node] = self._choose(node)
        return self._made[node]

    def _choose(self, node: Node) -> Format:
        grid = self.grid(node)
        if grid is not None:
            return grid.format
        if not is_float(node):
            return exact(node)
        if any(self._is_halved(reader, operand) for reader, operand, _ in self.readers(node)):
            return self.fine(node)
        made = maker(self.planner, node)
        if made is not node and self.planner.plans[node].rule == "cat" and is_float(made):
            return self.of(made)
        kinds = {self._kind(*found) for found in self.readers(node)}
        if kinds == {"linear"} and (self.is_head(node) or self.is_one_sided(node)):
            return self.convolved(node)
        if kinds == {"linear"}:
            return self.wide(node) if self.smoothing(node).by_row else self.smoothed(node)
        if kinds == {"product"}:
            return self.narrow(self._joined(node))
        if kinds == {"moved to linear"} and self._plain(node):
            return self.symmetric(self._joined(node))
        if kinds == {"softmax"}:
            return Format(dtype="int32", scale=0.0)
        return self.wide(node)

    def grid(self, node: Node) -> Grid | None:
        """The grid of a quantize node, or of the quantize nodes that alone read `node`."""
        own = self.planner.grids.get(node)
        if own is not None:
            return own
        grids = [self.planner.grids.get(r) for r in self.planner.readers.get(node, ())]
        alike = bool(grids) and all(g == grids[0] for g in grids)
        return grids[0] if alike else None

    def _kind(self, reader: Node, operand: Node, moved: bool) -> str:
        plan = self.planner.plans.get(reader)
        if plan is None:
            return "output"
        if plan.rule == "quantize":
            return "wide"
        if plan.rule == "linear":
            return "moved to linear" if moved else "linear"
        if plan.rule in ("convolution", "matmul") or self.is_summed(reader):
            return "product"
        if plan.rule == "attention":
            return "product" if operand in reader.args[:3] else "wide"
        if plan.rule == "softmax":
            return "softmax"
        if plan.rule in ("add", "sub") and self.of(reader).dtype == "int32":
            return "softmax"
        return "wide"

    def _is_halved(self, reader: Node, operand: Node) -> bool:
        """Whether a product reads this operand with 16 bits."""
        return reader in self.precise and operand in factors_of(self.planner.plans[reader])

    def is_exact(self, node: Node) -> bool:
        """Whether layers of 16 bits, weights too, read the value or what is made of it."""
        return node in self._exact

    def _plain(self, node: Node) -> bool:
        """Whether a product of activations or a norm, moved to linear layers, may be int8 of one
        scale: they lose little by it.
        """
        plan = self.planner.plans.get(node)
        if plan is None or self.rows == "always":
            return False
        if node.target not in PRODUCTS and plan.rule not in _NORMS:
            return False
        return all(map(self._accurate, {operand for _, operand, _ in self.readers(node)}))

    def _accurate(self, node: Node) -> bool:
        """Whether the linear layers that read `node` lose little by one scale."""
        found = self.smoothing(node)
        return found.plain <= GAIN * found.error

    def _joined(self, node: Node) -> Node:
        """The concatenation that a value becomes part of: its parts share its scale."""
        seen, at = {node}, node
        while True:
            nearest = [r for r in self.planner.readers.get(at, ()) if r in self.planner.plans]
            if len(nearest) != 1 or nearest[0] in seen:
                return node
            at = nearest[0]
            seen.add(at)
            if self.planner.plans[at].rule == "cat":
                return at
            if self.planner.plans[at].rule != "same" and at.target not in MOVES:
                return node

    def magnitude(self, node: Node) -> float:
        """Largest magnitude of a value in calibration (or of a constant); 1 for what is zero."""
        constant = self.planner.fixed.get(node)
        if constant is not None:
            return _unit(float(constant.abs().max()))
        largest = _unit(self.ranges.largest.get(node, 0.0))
        if node in self._wholes.fractions:
            return max(largest, 1.0)
        weighed = self._wholes.weighed.get(node)
        return largest if weighed is None else max(largest, self.magnitude(weighed))

    def is_whole(self, node: Node) -> bool:
        """Whether a float value is a whole number by what computes it."""
        return node in self._wholes.whole

    def narrow(self, node: Node) -> Format:
        """int8 with one scale; all of its steps for what is never negative."""
        readers = [reader for reader, _, _ in self.readers(node)]
        if readers and all(map(self._convolves, readers)):
            return self.convolved(node)
        return self._narrow(node)

    def is_summed(self, node: Node) -> bool:
        """Whether an average is computed as a convolution: see `averages.py`."""
        return is_summed(self.planner, self.readers, node)

    def _convolves(self, node: Node) -> bool:
        """Whether it is computed as a convolution is."""
        plan = self.planner.plans.get(node)
        return plan is not None and (plan.rule == "convolution" or self.is_summed(node))

    def convolved(self, node: Node) -> Format:
        """int8 with one scale and a zero point, for convolutions; inputs keep their own range."""
        if node.op == "placeholder" or node not in self.ranges.ends:
            return self._narrow(node)
        elements, origin = node.meta["val"].numel(), self.origin(node)
        scales = self.channels(origin)
        if scales is None:
            return affine(self.ranges.ends[node], elements)
        form = affine(self.ranges.images[origin].ends(scales), elements)
        return replace(form, scale=form.scale * scales, axis=1)

    def origin(self, node: Node) -> Node:
        """The node that makes the value: behind what changes nothing of it."""
        while node in self.planner.plans and self.planner.plans[node].rule == "same":
            (node,) = self.planner.plans[node].reads
        return node

    def channels(self, node: Node) -> NDArray[np.float64] | None:
        """The scales of the channels of an image that only convolutions read; None: one for all."""
        if node not in self._channels:
            readers, elements = self._image_readers(node), node.meta["val"].numel()
            widths = {self.precise.get(r, "int8") for r, _, _ in self.readers(node)}
            if not readers or "int16" in widths:
                self._channels[node] = None
            elif widths == {"int16x16"}:
                step = _high(affine(self.ranges.ends[node], elements), "int16x16").scale / FINE
                self._channels[node] = wide_scales(self.ranges.images[node], readers, float(step))
            else:
                self._channels[node] = image_scales(self.ranges.images[node], readers, elements)
        return self._channels[node]

    def _image_readers(self, node: Node) -> list[Reader] | None:
        """The convolutions that read `node`, if nothing else does and its rule knows channels."""
        plan = self.planner.plans.get(node)
        if plan is None or plan.rule not in _CHANNELLED or node not in self.ranges.images:
            return None
        if plan.rule == "bounded" and plan.data["high"] is not None:
            return None  # the same bound is another integer in each channel
        found = []
        for reader, _, moved in self.readers(node):
            of_reader = self.planner.plans.get(reader)
            if of_reader is None or of_reader.rule != "convolution" or moved:
                return None
            if of_reader.source.args[1] in self.planner.stored:
                return None  # integers that the model brings have no factors by channel
            found.append(self._image_reader(of_reader))
        return found

    def _image_reader(self, plan: Plan) -> Reader:
        call = plan.source
        kernel = self.planner.fixed[call.args[1]].double().numpy()
        w = windows(call, kernel.shape[2:] if kernel.ndim > 3 else (1, *kernel.shape[2:]))
        if w.transposed:
            kernel = output_first(kernel, w.groups)
        factor = np.asarray(plan.data["factor"], np.float64).reshape(-1, *[1] * (kernel.ndim - 1))
        return Reader(kernel=kernel * factor, groups=w.groups)

    def high(self, node: Node) -> Format:
        """int8 for the high half of a value of 16 bits: its zero point leaves room for the low."""
        widths = set(map(self.precise.get, (reader for reader, _, _ in self.readers(node))))
        return _high(self.convolved(node), "int16x16" if "int16x16" in widths else "int16")

    def fine(self, node: Node) -> Format:
        """int16 for a value that products read with 16 bits."""
        high = self.high(node)
        return Format(dtype="int16", scale=high.scale / FINE, axis=high.axis)

    def is_head(self, node: Node) -> bool:
        """Whether linear layers read `node` as a convolution would: features of a whole image.

        Their ranges follow from few rows, one a sample: too few for a scale by channel.
        """
        flat = self.rows == "auto" and len(node.meta["val"].shape) == 2
        return flat and any(p.rule == "convolution" for p in self.planner.plans.values())

    def is_one_sided(self, node: Node) -> bool:
        """Whether linear layers lose less with one scale and a zero point than with scales of
        channels. That is so where hardly a value is below zero, as behind a GELU or ReLU.

        Scales by row take more passes, so that these must lose much less (`GAIN`) to be preferred.
        """
        if self.rows == "always" or node.op == "placeholder" or node not in self.ranges.ends:
            return False
        found, form = self.smoothing(node), self.convolved(node)
        if isinstance(form.scale, np.ndarray):
            return False
        finer = form.scale / self.symmetric(node).scale
        return bool(finer**2 * found.plain <= found.error * (GAIN if found.by_row else 1.0))

    def _narrow(self, node: Node) -> Format:
        if self.ranges.least.get(node, -1.0) >= 0:
            return Format(dtype="int8", scale=self.magnitude(node) / 255, zero_point=-128)
        return self.symmetric(node)

    def symmetric(self, node: Node) -> Format:
        """int8 with one scale and zero point 0."""
        return Format(dtype="int8", scale=self.magnitude(node) / 127)

    def wide(self, node: Node) -> Format:
        """int16 with one scale; integers and bools as they are."""
        grid = self.planner.grid_behind(node)
        if grid is not None:  # exactly, and in so fine steps that int16 is filled
            return Format(dtype="int16", scale=grid.scale / FINE)
        if not is_float(node):
            return exact(node)
        if node in self._wholes.whole:
            return Format(
                dtype="int16", scale=whole_step(self._own_step(node), self.magnitude(node))
            )
        made = maker(self.planner, node)
        if made is not node and is_float(made):
            return self.wide(made)
        if node not in self._streams and node not in self._exact:
            whole = self._joined(node)
            own = whole is node or maker(self.planner, whole) is node
            if not own and whole not in self._wholes.whole:
                return self.wide(whole)
        return Format(dtype="int16", scale=self._streams.get(node) or self._own_step(node))

    def _own_step(self, node: Node) -> float:
        """The step of int16 for the range of a value."""
        return HEADROOM * self.magnitude(node) / 32767

    @cached_property
    def _streams(self) -> Mapping[Node, float]:
        kept = frozenset(self._wholes.whole) | self._exact
        return stream_steps(self.planner, self._own_step, kept)

    def plain(self, node: Node) -> Format:
        """`of` with one scale, of at most 16 bits (or a bool)."""
        want = self.of(node)
        if (want.dtype == "int32" and is_float(node)) or isinstance(want.scale, np.ndarray):
            return self.wide(node)
        return want

    def int16(self, node: Node) -> Format:
        """int16 with one scale, of integers too: as they are where they fit."""
        if is_float(node):
            return self.wide(node)
        return Format(dtype="int16", scale=max(1.0, HEADROOM * self.magnitude(node) / 32767))

    def smoothing(self, node: Node) -> Smoothing:
        """How the linear layers that read `node` quantize it."""
        if node not in self._smoothings:
            weights = [
                matrix(r, self.planner.fixed)
                for r, _, moved in self.readers(node)
                if self._is_linear(r) and not moved
            ]
            self._smoothings[node] = choose(
                self.ranges.channels[node], self.ranges.rows.get(node), weights, self.rows
            )
        return self._smoothings[node]

    def smoothed(self, node: Node) -> Format:
        """int8 with a fixed scale per channel, for the linear layers that read `node`."""
        x, smooth = self.ranges.channels[node], self.smoothing(node).channels
        return Format(dtype="int8", scale=smooth * _unit(float((x / smooth).max())) / 127)

    def _is_linear(self, reader: Node) -> bool:
        plan = self.planner.plans.get(reader)
        return plan is not None and plan.rule == "linear"


def matrix(node: Node, constants: Mapping[Node, torch.Tensor]) -> Matrix:
    """The weights [out, in] of a linear layer, without a copy."""
    operand = linear_weight(node)
    assert operand is not None
    weight = constants[operand]
    if weight.dtype not in (torch.float32, torch.float64):
        weight = weight.double()
    weight = weight if node.target is aten.linear.default else weight.t()
    return np.asarray(weight.numpy())
