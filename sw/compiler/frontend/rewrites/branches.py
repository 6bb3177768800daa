"""Sums of convolutions of one value are one convolution.

Networks that are trained with parallel branches (RepVGG, MobileOne, ACNet) leave 3×3 and 1×1
convolutions, batch norms and the value itself to be added. All are linear: their weights are added
instead, in float64, where rounding them to int8 loses little more than rounding each did.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import GraphModule, Node

from sw.compiler.frontend.batch_norms import add_parameter
from sw.compiler.frontend.nodes import arguments, aten, is_float, node_argument, shape
from sw.compiler.frontend.patterns import channel_affines
from sw.compiler.frontend.windows import windows

MOST_NOISE = 8.0
"""Times the squared rounding error of weights, averaged over channels: that of 1.5 bits less."""

TINY = 1e-30

_CONVOLUTIONS = (aten.conv2d.default, aten.conv2d.padding)
_ADD = aten.add.Tensor

Float = NDArray[np.float64]
Constants = Mapping[Node, torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch:
    """A summand: a convolution of `x` with weights [O, I / groups, height, width] and a bias.

    first: where the first tap lies from the pixel, by axis. noise: the squared rounding error of
    each output channel's weights, up to a factor. conv: None for x itself, scaled; its weights are
    [C, 1, 1, 1].
    """

    x: Node
    weight: Float
    bias: Float
    first: tuple[int, int] = (0, 0)
    stride: tuple[int, int] = (1, 1)
    groups: int
    noise: Float
    conv: Node | None = None

    @property
    def area(self) -> int:
        """Taps that cost time."""
        return 0 if self.conv is None else self.weight.shape[2] * self.weight.shape[3]

    @property
    def last(self) -> tuple[int, int]:
        rows, cols = self.weight.shape[2:]
        return self.first[0] + rows - 1, self.first[1] + cols - 1


def join_branches(module: GraphModule, constants: Constants) -> None:
    """Rewrite such sums in place. constants: the values of parameters."""
    for root in list(module.graph.nodes):
        if not _is_sum(root) or any(_is_inner(root, user) for user in root.users):
            continue
        leaves = list(_leaves(root))
        branches = [_branch(leaf, constants) for leaf in leaves]
        total, taken = _joined(branches, shape(root))
        if total is not None and len(taken) > 1:
            rest = [leaf for i, leaf in enumerate(leaves) if i not in taken]
            _replace(module, root, total, rest)
    module.graph.eliminate_dead_code()
    module.graph.lint()
    module.recompile()


def _is_sum(node: Node) -> bool:
    return (
        node.target is _ADD
        and is_float(node)
        and node.kwargs.get("alpha", 1) == 1
        and all(isinstance(a, Node) and shape(a) == shape(node) for a in node.args[:2])
        and len(shape(node)) == 4
    )


def _is_inner(node: Node, user: Node) -> bool:
    """Whether `node` is a summand of the sum `user` and nothing else."""
    return _is_sum(user) and len(node.users) == 1 and user.args[:2].count(node) == 1


def _leaves(root: Node) -> Iterator[Node]:
    for operand in (node_argument(root, 0), node_argument(root, 1)):
        if _is_sum(operand) and _is_inner(operand, root):
            yield from _leaves(operand)
        else:
            yield operand


def _branch(leaf: Node, constants: Constants) -> _Branch | None:
    """The summand, with the affine maps of its channels; None where nothing can join it."""
    if len(leaf.users) == 1:
        at, factor, offset = channel_affines(leaf, constants)
        if at.target in _CONVOLUTIONS and len(at.users) == 1:
            return _of_convolution(at, factor, offset, constants)
    else:
        at, factor, offset = leaf, np.ones(shape(leaf)[1]), np.zeros(shape(leaf)[1])
    return _Branch(
        x=at, weight=factor.reshape(-1, 1, 1, 1), bias=offset, groups=len(factor),
        noise=np.zeros(len(factor)),
    )  # fmt: skip


def _of_convolution(
    conv: Node, factor: Float, offset: Float, constants: Constants
) -> _Branch | None:
    given = arguments(conv)
    weight, bias = constants.get(given["weight"]), given["bias"]
    if weight is None or (bias is not None and bias not in constants):
        return None
    over = windows(conv, weight.shape[2:])
    if any(each != 1 for each in over.dilation) or any(p != q for p, q in over.pads):
        return None
    scaled = weight.double().numpy() * factor.reshape(-1, 1, 1, 1)
    moved = offset if bias is None else constants[bias].double().numpy() * factor + offset
    (top, _), (left, _) = over.pads
    return _Branch(
        x=given["input"], weight=scaled, bias=moved, first=(-top, -left),
        stride=(over.stride[0], over.stride[1]), groups=over.groups, noise=_noise(scaled),
        conv=conv,
    )  # fmt: skip


def _noise(weight: Float) -> Float:
    """Of each channel, whose weights are rounded to steps of the largest of them; not 0."""
    rows = weight.reshape(len(weight), -1)
    return np.maximum(np.count_nonzero(rows, axis=1) * np.abs(rows).max(axis=1) ** 2, TINY)


def _joined(
    branches: list[_Branch | None], result: tuple[int, ...]
) -> tuple[_Branch | None, set[int]]:
    """(the sum of those that can be one convolution, which they are), the largest kernel first."""
    known = [(i, each) for i, each in enumerate(branches) if each is not None]
    total: _Branch | None = None
    taken: set[int] = set()
    for i, each in sorted(known, key=lambda one: -one[1].area):
        both = each if total is None else _sum(total, each, result)
        if both is not None and both.conv is not None:
            total, taken = both, taken | {i}
    return total, taken


def _sum(a: _Branch, b: _Branch, result: tuple[int, ...]) -> _Branch | None:
    """`a`, a convolution, and `b` as one; None where that cannot be, or is no gain."""
    groups = a.groups if b.conv is None else b.groups
    if a.x is not b.x or a.stride != b.stride or a.groups != groups:
        return None
    if b.conv is None and len(b.weight) != len(a.weight):
        return None
    weight = b.weight if b.conv is not None else _on_diagonal(b.weight, a.weight.shape[1])
    first = (min(a.first[0], b.first[0]), min(a.first[1], b.first[1]))
    sides = tuple(max(m, n) - low + 1 for m, n, low in zip(a.last, b.last, first, strict=True))
    sizes = zip(shape(a.x)[2:], first, sides, a.stride, result[2:], strict=True)
    fits = all(low <= 0 and (n - 2 * low - k) // by + 1 == out for n, low, k, by, out in sizes)
    if not fits or sides[0] * sides[1] > a.area + b.area:
        return None
    total = np.zeros((*a.weight.shape[:2], *sides))
    for part, begin in ((a.weight, a.first), (weight, b.first)):
        y, x = begin[0] - first[0], begin[1] - first[1]
        total[:, :, y : y + part.shape[2], x : x + part.shape[3]] += part
    if np.mean(_noise(total) / (a.noise + b.noise)) > MOST_NOISE:
        return None
    return _Branch(
        x=a.x, weight=total, bias=a.bias + b.bias, first=first, stride=a.stride, groups=a.groups,
        noise=a.noise + b.noise, conv=a.conv,
    )  # fmt: skip


def _on_diagonal(scale: Float, inputs: int) -> Float:
    """Weights [C, `inputs`, 1, 1] of the convolution that scales each channel by itself."""
    channels = np.arange(len(scale))
    weight = np.zeros((len(scale), inputs, 1, 1))
    weight[channels, channels % inputs] = scale[:, 0]
    return weight


def _replace(module: GraphModule, root: Node, total: _Branch, rest: list[Node]) -> None:
    """The convolution, and the summands that are left, in place of `root`."""
    conv = total.conv
    assert conv is not None
    values = {"weight": total.weight, "bias": total.bias}
    with module.graph.inserting_before(conv):
        nodes = [
            add_parameter(module, f"{conv.name}_joined_{name}", torch.from_numpy(value).float())
            for name, value in values.items()
        ]
    padding = [-low for low in total.first]
    conv.target = aten.conv2d.default
    conv.args = (total.x, *nodes, list(total.stride), padding, [1, 1], total.groups)
    conv.kwargs = {}
    made = conv
    for leaf in rest:
        with module.graph.inserting_before(root):
            made = module.graph.call_function(_ADD, (made, leaf))
        made.meta.update(root.meta)
    root.replace_all_uses_with(made)
