"""Channel shuffles that cost nothing: the convolutions behind them have their weights permuted.

A shuffle is a RESHAPE of the channels to [groups, channels of a group], a TRANSPOSE of the two, and
a RESHAPE back; SLICEs of the channels may lie between and behind. So each channel of the result is
one channel of a tensor before all that, the *base*. A CONV2D reads the base itself, with its
weights in that order; where it reads the same part of every group, the groups are taps of a wider
kernel. A DEPTHWISE_CONV2D and the RESCALE behind it work on the channels in the order of the base,
and the shuffle follows them, if convolutions take it there. What else reads a part of a shuffled
tensor gets a TRANSPOSE of that part alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from sw.compiler.passes.dead_code import remove_dead_code
from sw.compiler.tosa.graph import Graph, Op, Tensor

Indices = NDArray[np.int64]

_MOVES = ("RESHAPE", "TRANSPOSE", "SLICE")

MOST_FOLDS = 1.1
"""How many times the folds a product may take that reads groups as taps of its kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shuffled:
    """A tensor's channels are channels `indices` of tensor `base`; `moves` bring them there."""

    base: str
    indices: Indices
    moves: tuple[Op, ...]

    @property
    def is_shuffle(self) -> bool:
        """Whether channels change places."""
        return bool((np.diff(self.indices) < 0).any())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Channels `start`…`start + count` of each of `groups` equal groups of channels."""

    groups: int
    start: int
    count: int


def absorb_shuffles(graph: Graph, config: NpuConfig) -> None:
    """Every shuffle, as far as convolutions read it."""
    if not any(op.kind == "TRANSPOSE" for op in graph.ops):
        return
    pass_ = _Shuffles(graph, config)
    # Behind a DEPTHWISE_CONV2D there is a shuffle for those that follow.
    for op in list(graph.ops):
        if op.kind == "DEPTHWISE_CONV2D":
            pass_.delay(op)
    for op in graph.ops:
        if op.kind == "CONV2D":
            pass_.absorb(op)
    remove_dead_code(graph)
    for op in list(graph.ops):
        if op.kind == "SLICE":
            pass_.narrow(op)
    remove_dead_code(graph)


class _Shuffles:
    def __init__(self, graph: Graph, config: NpuConfig) -> None:
        self.graph, self.config = graph, config
        self.producers = graph.producers()

    def absorb(self, conv: Op) -> None:
        """Let CONV2D `conv` read the base of what it reads."""
        graph = self.graph
        found = self._shuffled(conv.inputs[0])
        part = None if found is None else self._readable(conv, found)
        if found is None or part is None:
            return
        base, weights = graph.tensors[found.base], graph.constant(conv.inputs[1])
        channels = base.shape[-1] // part.groups
        # Channel c of group g, in the order in which the base has them.
        order = np.argsort(found.indices)
        oc, kh, kw, _ = weights.shape
        kind = graph.tensors[conv.inputs[1]].dtype
        taps = weights[..., order].reshape(oc, kh, kw * part.groups, part.count)
        conv.inputs[1] = graph.add_constant(f"{conv.name}_order", taps, kind)
        conv.inputs[0] = found.base
        if part.groups == 1:
            return
        n, h, w, _ = base.shape
        wide = self._reshape(conv, base, (n, h, w * part.groups, channels))
        if part.count < channels:
            wide = self._slice(
                conv, wide, (0, 0, 0, part.start), (n, h, w * part.groups, part.count)
            )
        conv.inputs[0] = wide
        top, bottom, left, right = conv.attributes["pad"]
        sy, sx = conv.attributes["stride"]
        conv.attributes["pad"] = (top, bottom, left * part.groups, right * part.groups)
        conv.attributes["stride"] = (sy, sx * part.groups)

    def delay(self, conv: Op) -> None:
        """Let DEPTHWISE_CONV2D `conv` read the base, if CONV2Ds alone read the result, or if it is
        less than what the shuffle moves.
        """
        graph = self.graph
        found = self._shuffled(conv.inputs[0])
        if found is None or not self._is_permutation(found):
            return
        if any(op.kind == "SLICE" for op in found.moves):
            return
        constant = all(graph.tensors[name].is_constant for name in conv.inputs[1:])
        if not constant or graph.tensors[conv.inputs[1]].shape[3] != 1:
            return
        chain = [conv]
        while (after := self._only_reader(chain[-1].outputs[0])) is not None:
            if after.kind not in ("RESCALE", "CLAMP", "TABLE"):
                break
            if not all(graph.tensors[name].is_constant for name in after.inputs[1:]):
                return
            chain.append(after)
        result = chain[-1].outputs[0]
        before, behind = graph.tensors[found.base], graph.tensors[result]
        if behind.nbytes >= before.nbytes and not self._convolutions_read(result, found):
            return
        # Output channel i of the base's order is channel order[i] of the shuffled one.
        order = np.argsort(found.indices)
        conv.inputs[0] = found.base
        conv.inputs[1] = self._ordered(conv.inputs[1], order, axis=2)
        conv.inputs[2] = self._ordered(conv.inputs[2], order, axis=0)
        for op in chain[1:]:
            if op.attributes.get("per_channel"):
                op.inputs[1] = self._ordered(op.inputs[1], order, axis=0)
                op.inputs[2] = self._ordered(op.inputs[2], order, axis=0)
        for op, after in pairwise(chain):
            # Values in another order have another name.
            after.inputs[0] = self._renamed(op)
        self._shuffle_again(chain[-1], found)

    def narrow(self, cut: Op) -> None:
        """SLICE before TRANSPOSE, if it takes the same part of every group of a shuffle."""
        graph = self.graph
        whole, result = graph.tensors[cut.inputs[0]], self._shuffled(cut.outputs[0])
        readers = [op for op in graph.ops if whole.name in op.inputs]
        slices = all(op.kind == "SLICE" for op in readers)
        sizes = sum(graph.tensors[op.outputs[0]].size for op in readers)
        if result is None or not slices or sizes >= whole.size or whole.name in graph.outputs:
            return
        part = self._part(result)
        channels = graph.tensors[result.base].shape[-1]
        if part is None or part.groups == 1 or part.count * part.groups == channels:
            return
        rows = np.arange(channels).reshape(part.groups, -1)
        rows = rows[:, part.start : part.start + part.count]
        if not np.array_equal(rows.T.reshape(-1), result.indices):
            return
        base, out = graph.tensors[result.base], graph.tensors[cut.outputs[0]]
        lead = base.shape[:-1]
        size = (*lead, part.groups, part.count)
        wide = self._reshape(cut, base, (*lead, part.groups, channels // part.groups))
        start = (*(0 for _ in lead), 0, part.start)
        some = graph.tensors[self._slice(cut, wide, start, size)]
        turned = replace(
            out, name=graph.fresh_name(f"{out.name}_turned"), shape=(*lead, part.count, part.groups)
        )
        last = len(lead)
        self._insert(
            cut, "TRANSPOSE", [some.name], turned, {"perms": (*range(last), last + 1, last)}
        )
        shape = graph.add_constant(f"{out.name}_shape", out.shape, "shape")
        cut.kind, cut.inputs, cut.attributes = "RESHAPE", [turned.name, shape], {}

    # What is shuffled ---------------------------------------------------------------------------

    def _shuffled(self, name: str) -> _Shuffled | None:
        """How the channels of `name` are found in an earlier tensor, if they change places."""
        moves: list[Op] = []
        at = name
        while (op := self.producers.get(at)) is not None and op.kind in _MOVES:
            moves.insert(0, op)
            at = op.inputs[0]
        # A RESHAPE that does not belong to the shuffle may lie before it.
        while moves:
            indices = self._indices(moves)
            if indices is not None:
                found = _Shuffled(base=moves[0].inputs[0], indices=indices, moves=tuple(moves))
                return found if found.is_shuffle else None
            moves.pop(0)
        return None

    def _indices(self, moves: Sequence[Op]) -> Indices | None:
        """The base's channels after `moves`; None if these move more than channels."""
        graph = self.graph
        *lead, channels = graph.tensors[moves[0].inputs[0]].shape
        known = len(lead)
        here = np.arange(channels, dtype=np.int64)
        for op in moves:
            shape = graph.tensors[op.outputs[0]].shape
            if op.kind == "TRANSPOSE":
                perms = op.attributes["perms"]
                if tuple(perms[:known]) != tuple(range(known)):
                    return None
                here = here.transpose([p - known for p in perms[known:]])
            elif list(shape[:known]) != lead:
                return None
            elif op.kind == "RESHAPE":
                here = here.reshape(shape[known:])
            else:
                start = graph.constant(op.inputs[1]).reshape(-1).tolist()
                cut = tuple(
                    slice(a, a + size) for a, size in zip(start[known:], shape[known:], strict=True)
                )
                here = here[cut]
        return here if here.ndim == 1 and known else None

    def _is_permutation(self, found: _Shuffled) -> bool:
        """Whether every channel of the base is there."""
        return found.indices.size == self.graph.tensors[found.base].shape[-1]

    def _part(self, found: _Shuffled) -> _Part | None:
        """The part of the base's groups that these channels are, in whatever order."""
        channels = self.graph.tensors[found.base].shape[-1]
        used = np.sort(found.indices)
        breaks = np.flatnonzero(np.diff(used) != 1)
        groups = breaks.size + 1
        count = used.size // groups
        part = _Part(groups=groups, start=int(used[0]), count=count)
        if channels % groups or used.size % groups:
            return None
        rows = np.arange(channels).reshape(groups, -1)[:, part.start : part.start + count]
        return part if np.array_equal(rows.reshape(-1), used) else None

    # Who reads it -------------------------------------------------------------------------------

    def _readable(self, conv: Op, found: _Shuffled) -> _Part | None:
        """The part of the base that CONV2D `conv` can read as it lies, in about as many folds."""
        part = self._part(found)
        if not self.graph.tensors[conv.inputs[1]].is_constant:
            return None
        if part is None or part.groups == 1:
            return part
        rows = self.config.rows
        folds = part.groups * math.ceil(part.count / rows)
        most = MOST_FOLDS * math.ceil(found.indices.size / rows)
        return part if conv.attributes["dilation"][1] == 1 and folds <= most else None

    def _convolutions_read(self, name: str, found: _Shuffled) -> bool:
        """Whether CONV2Ds alone read `name`, or SLICEs of its channels, and can read the base."""
        readers = [op for op in self.graph.ops if name in op.inputs]
        if name in self.graph.outputs or not readers:
            return False
        for op in readers:
            if op.kind == "SLICE":
                start = self.graph.constant(op.inputs[1]).reshape(-1).tolist()
                shape = self.graph.tensors[op.outputs[0]].shape
                whole = self.graph.tensors[name].shape
                if shape[:-1] != whole[:-1]:
                    return False
                some = found.indices[start[-1] : start[-1] + shape[-1]]
                if not self._convolutions_read(op.outputs[0], replace(found, indices=some)):
                    return False
                continue
            reads = op.kind == "CONV2D" and op.inputs[0] == name and op.inputs.count(name) == 1
            if not reads or self._readable(op, found) is None:
                return False
        return True

    def _only_reader(self, name: str) -> Op | None:
        readers = [op for op in self.graph.ops if name in op.inputs]
        alone = len(readers) == 1 and readers[0].inputs.count(name) == 1
        return readers[0] if alone and name not in self.graph.outputs else None

    # New operators ------------------------------------------------------------------------------

    def _insert(
        self, at: Op, kind: str, inputs: list[str], out: Tensor, perms: dict[str, tuple[int, ...]]
    ) -> str:
        """An operator before `at` that makes tensor `out`."""
        self.graph.add_tensor(out)
        op = Op(
            kind=kind,
            name=out.name,
            inputs=inputs,
            outputs=[out.name],
            attributes=dict(perms),
            source=at.source,
        )
        self.graph.ops.insert(self.graph.ops.index(at), op)
        self.producers[out.name] = op
        return out.name

    def _reshape(self, at: Op, tensor: Tensor, shape: tuple[int, ...]) -> str:
        graph = self.graph
        out = replace(tensor, name=graph.fresh_name(f"{tensor.name}_groups"), shape=shape)
        target = graph.add_constant(f"{out.name}_shape", shape, "shape")
        return self._insert(at, "RESHAPE", [tensor.name, target], out, {})

    def _slice(self, at: Op, name: str, start: tuple[int, ...], size: tuple[int, ...]) -> str:
        graph = self.graph
        out = replace(graph.tensors[name], name=graph.fresh_name(f"{name}_part"), shape=size)
        first = graph.add_constant(f"{out.name}_start", start, "shape")
        count = graph.add_constant(f"{out.name}_size", size, "shape")
        return self._insert(at, "SLICE", [name, first, count], out, {})

    def _ordered(self, name: str, order: Indices, axis: int) -> str:
        """Constant `name` with `order` along `axis`; one of a single element is for all."""
        tensor = self.graph.tensors[name]
        if tensor.shape[axis] == 1:
            return name
        data = np.take(self.graph.constant(name), order, axis)
        return self.graph.add_constant(f"{name}_order", data, tensor.dtype)

    def _renamed(self, op: Op) -> str:
        """The result of `op` under another name."""
        result = self.graph.tensors[op.outputs[0]]
        name = self.graph.fresh_name(f"{result.name}_first")
        op.outputs = [self.graph.add_tensor(replace(result, name=name))]
        self.producers[name] = op
        return name

    def _shuffle_again(self, last: Op, found: _Shuffled) -> None:
        """The moves of `found` behind `last`, whose former result is theirs."""
        graph = self.graph
        (name,) = last.outputs
        result = graph.tensors[name]
        known = len(result.shape) - 1
        at, before = graph.ops.index(last) + 1, self._renamed(last)
        for move in found.moves:
            shape = (*result.shape[:known], *graph.tensors[move.outputs[0]].shape[known:])
            inputs = [before]
            out = replace(result, name=graph.fresh_name(f"{name}_move"), shape=shape)
            if move is found.moves[-1]:
                out = result
            else:
                graph.add_tensor(out)
            if move.kind == "RESHAPE":
                inputs.append(graph.add_constant(f"{out.name}_shape", shape, "shape"))
            op = replace(move, name=out.name, inputs=inputs, outputs=[out.name])
            op.attributes = dict(move.attributes)
            graph.ops.insert(at, op)
            self.producers[out.name] = op
            at, before = at + 1, out.name
