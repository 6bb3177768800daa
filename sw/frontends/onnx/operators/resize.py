"""Resize: PyTorch's interpolation where it computes the same, else a matrix for each axis."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.onnx.errors import refused
from sw.frontends.onnx.node import Node
from sw.frontends.onnx.operators.operator import op

Array = np.ndarray[Any, Any]

_COORDINATES = (
    "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric",
    "tf_crop_and_resize",
)  # fmt: skip
_ROUNDING: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """How an axis of `size` elements becomes one of `length`. region: start and end of a crop."""

    axis: int
    size: int
    length: int
    scale: float
    region: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _How:
    """The attributes that say how."""

    mode: str
    coordinates: str
    rounding: str
    cubic: float
    outside: bool
    antialias: bool
    extrapolation: float


def _resize(node: Node, x: T, roi: Any = None, scales: Any = None, sizes: Any = None) -> T:
    how = _How(
        mode=node.only("mode", "nearest", "linear", "cubic"),
        coordinates=node.only("coordinate_transformation_mode", *_COORDINATES),
        rounding=node.only("nearest_mode", *_ROUNDING),
        cubic=node.get("cubic_coeff_a", -0.75),
        outside=bool(node.only("exclude_outside", 0, 1)),
        antialias=bool(node.only("antialias", 0, 1)),
        extrapolation=node.get("extrapolation_value", 0.0),
    )
    axes = _axes(node, x, roi, scales, sizes, how)
    axes = [a for a in axes if a.length != a.size or a.scale != 1 or a.region != (0.0, 1.0)]
    name = _name(x, axes, how)
    if name:
        corners = how.coordinates == "align_corners" if name == "bilinear" else None
        lengths = [next((a.length for a in axes if a.axis == i), x.shape[i]) for i in (2, 3)]
        return F.interpolate(x, lengths, mode=name, align_corners=corners)
    for axis in axes:
        x = _moved(x, axis, how)
    return x


def _axes(node: Node, x: T, roi: Any, scales: Any, sizes: Any, how: _How) -> list[_Axis]:
    chosen = [a % x.dim() for a in node.get("axes", range(x.dim()))]
    policy = node.only("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
    given = sizes is not None and sizes.size > 0
    if not given and (scales is None or not scales.size):
        raise refused("neither scales nor sizes are given", "give one of them")
    if given:
        lengths = sizes.tolist()
        factors = [n / x.shape[a] for n, a in zip(lengths, chosen, strict=True)]
        if policy != "stretch":
            one = min(factors) if policy == "not_larger" else max(factors)
            factors = [one] * len(chosen)
            lengths = [math.floor(one * x.shape[a] + 0.5) for a in chosen]
    else:
        factors = scales.tolist()
        regions = _regions(roi, len(chosen), how)
        lengths = [
            math.floor(x.shape[a] * (end - start) * f)
            for a, f, (start, end) in zip(chosen, factors, regions, strict=True)
        ]
    return [
        _Axis(axis=a, size=x.shape[a], length=n, scale=f, region=region)
        for a, n, f, region in zip(
            chosen, lengths, factors, _regions(roi, len(chosen), how), strict=True
        )
    ]


def _regions(roi: Any, count: int, how: _How) -> Sequence[tuple[float, float]]:
    if how.coordinates != "tf_crop_and_resize":
        return [(0.0, 1.0)] * count
    if roi is None or not roi.size:
        raise refused("tf_crop_and_resize without a region", "give the operand roi")
    ends = roi.tolist()
    return list(zip(ends[:count], ends[count:], strict=True))


def _name(x: T, axes: Sequence[_Axis], how: _How) -> str:
    """PyTorch's mode that computes the same, or nothing."""
    # A scale that is not length / size would move the positions.
    whole = all(abs(a.scale - a.length / a.size) < 1e-6 * a.scale for a in axes)
    images = x.dim() == 4 and all(a.axis > 1 for a in axes)
    if how.antialias or how.outside or not (whole and images):
        return ""
    if how.mode == "linear":
        pixels = how.coordinates == "pytorch_half_pixel" and all(a.length > 1 for a in axes)
        return "bilinear" if pixels or how.coordinates in ("half_pixel", "align_corners") else ""
    if how.mode == "nearest":
        # Enlarged by whole factors, positions of half pixels round to the same elements.
        grown = how.coordinates == "half_pixel" and how.rounding.startswith("round")
        grown = grown and all(a.scale == int(a.scale) for a in axes)
        plain = (how.coordinates, how.rounding) == ("asymmetric", "floor")
        return "nearest" if plain or grown else ""
    return ""


def _positions(axis: _Axis, how: _How) -> Array:
    """Where each element of the result lies among those of the operand."""
    at = np.arange(axis.length, dtype=np.float64)
    start, end = axis.region
    match how.coordinates:
        case "asymmetric":
            return at / axis.scale
        case "align_corners":
            last = axis.scale * axis.size - 1  # not rounded
            return at * (axis.size - 1) / last if last else at * 0
        case "pytorch_half_pixel" if axis.length == 1:
            return at - 0.5
        case "half_pixel_symmetric":
            adjusted = axis.length / (axis.scale * axis.size)
            return axis.size / 2 * (1 - adjusted) + (at + 0.5) / axis.scale - 0.5
        case "tf_crop_and_resize":
            if axis.length == 1:
                return np.array([0.5 * (start + end) * (axis.size - 1)])
            step = (end - start) * (axis.size - 1) / (axis.length - 1)
            return start * (axis.size - 1) + at * step
    return (at + 0.5) / axis.scale - 0.5


def _moved(x: T, axis: _Axis, how: _How) -> T:
    at = _positions(axis, how)
    beyond = how.coordinates == "tf_crop_and_resize"
    outside = (at < 0) | (at > axis.size - 1) if beyond else np.zeros(len(at), bool)
    if how.mode == "nearest":
        near = np.clip(_ROUNDING[how.rounding](at), 0, axis.size - 1).astype(int)
        y = x.index_select(axis.axis, torch.tensor(near.tolist()))
    else:
        matrix = torch.tensor(_matrix(at, axis, how).tolist(), dtype=x.dtype)
        y = torch.movedim(torch.movedim(x, axis.axis, -1) @ matrix.t(), -1, axis.axis)
    if not outside.any():
        return y
    shape = [-1 if i == axis.axis else 1 for i in range(x.dim())]
    mask = torch.tensor(outside.tolist()).reshape(shape)
    return torch.where(mask, torch.full_like(y, how.extrapolation), y)


def _matrix(at: Array, axis: _Axis, how: _How) -> Array:
    """(length, size): what each element of the operand counts for each of the result."""
    stretch = max(1.0, 1 / axis.scale) if how.antialias else 1.0
    reach = (2 if how.mode == "cubic" else 1) * stretch
    matrix = np.zeros((axis.length, axis.size))
    for row, centre in enumerate(at):
        taps = np.arange(math.floor(centre - reach) + 1, math.floor(centre + reach) + 1)
        weights = _kernel((taps - centre) / stretch, how)
        if how.outside:
            weights = np.where((taps < 0) | (taps >= axis.size), 0.0, weights)
        if how.outside or how.antialias:
            weights = weights / weights.sum()
        np.add.at(matrix[row], np.clip(taps, 0, axis.size - 1), weights)
    return matrix


def _kernel(distance: Array, how: _How) -> Array:
    d, a = np.abs(distance), how.cubic
    if how.mode == "linear":
        return np.maximum(0.0, 1 - d)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


RESIZE = {"Resize": op(_resize, static=(1, 2, 3))}
