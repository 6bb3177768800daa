"""Explicit padding in front of convolutions and pools becomes theirs.

Converters from PyTorch write PAD and PADV2 where LiteRT's own padding (SAME, VALID) does not say
the same. A program would copy the image for each.
"""

from collections import Counter
from dataclasses import replace

import numpy as np

from sw.frontends.litert.records import Contents, Operator, Pads, Tensor

_VALID = 1
"""The number of padding VALID in the schema."""

_PADS = ("PAD", "PADV2")
_READERS = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
}
"""Operators that take `Operator.pads`, and the class of their options."""


def fused(contents: Contents) -> Contents:
    """The same model without the PADs that one operator reads and can do itself."""
    found = _Fusion(contents)
    operators = [found.with_pads(operator) for operator in contents.operators]
    kept = tuple(o for o in operators if o.number not in found.dead)
    return replace(contents, operators=kept)


class _Fusion:
    def __init__(self, contents: Contents) -> None:
        self.tensors = contents.tensors
        self.makers = {o.outputs[0]: o for o in contents.operators if o.kind in _PADS and o.outputs}
        named = [i for o in contents.operators for i in o.inputs]
        self.readers = Counter([*named, *contents.outputs])
        self.dead: set[int] = set()
        """Numbers of PADs that nobody reads any more."""

    def with_pads(self, operator: Operator) -> Operator:
        """The operator, with the pads of the PAD in front of it if it can take them."""
        pad = self.makers.get(operator.inputs[0]) if operator.inputs else None
        given = operator.options
        if pad is None or type(given).__name__ != _READERS.get(operator.kind):
            return operator
        alone = self.readers[operator.inputs[0]] == 1
        pads = self._pads(pad) if alone and given.Padding() == _VALID else None
        if pads is None:
            return operator
        if operator.kind == "MAX_POOL_2D":
            sizes = (given.FilterHeight(), given.FilterWidth())
            if not self._is_lowest(pad) or not _fits_pool(pads, sizes):
                return operator
        elif not self._is_zero(pad):
            return operator
        self.dead.add(pad.number)
        return replace(operator, inputs=(pad.inputs[0], *operator.inputs[1:]), pads=pads)

    def _pads(self, pad: Operator) -> Pads | None:
        """((top, bottom), (left, right)) of a PAD of an image; None for any other."""
        source, result = self.tensors[pad.inputs[0]], self.tensors[pad.outputs[0]]
        rows = self._constant(pad, 1)
        if rows is None or rows.data is None or rows.data.size != 8:
            return None
        batch, height, width, channels = (
            (int(before), int(behind)) for before, behind in rows.data.reshape(4, 2)
        )
        if any(batch + channels) or min(height + width) < 0:
            return None
        same = (source.dtype, source.quantization) == (result.dtype, result.quantization)
        return (height, width) if same else None

    def _constant(self, operator: Operator, index: int) -> Tensor | None:
        if index >= len(operator.inputs) or operator.inputs[index] < 0:
            return None
        return self.tensors[operator.inputs[index]]

    def _value(self, pad: Operator) -> float | None:
        """The real value that is put around the image; None if it is not known."""
        given = self._constant(pad, 2)
        if given is None:
            return 0.0
        if given.data is None or given.data.size != 1:
            return None
        value, q = given.data.reshape(-1)[0], given.quantization
        return float(value) if q is None else (int(value) - q.zero_point[0]) * q.scale[0]

    def _is_zero(self, pad: Operator) -> bool:
        return self._value(pad) == 0

    def _is_lowest(self, pad: Operator) -> bool:
        """Whether no element of an image is below the value: a maximum ignores it then."""
        value, image = self._value(pad), self.tensors[pad.inputs[0]]
        if value is None:
            return False
        if image.dtype == "float32":
            return value <= float(np.finfo(np.float32).min)
        if image.dtype != "int8" or image.quantization is None:
            return False
        q = image.quantization
        return round(value / q.scale[0]) + q.zero_point[0] <= np.iinfo(np.int8).min


def _fits_pool(pads: Pads, sizes: tuple[int, int]) -> bool:
    """PyTorch pads both ends of a pool alike, by half a window at most."""
    return all(
        before == behind <= size // 2 for (before, behind), size in zip(pads, sizes, strict=True)
    )
