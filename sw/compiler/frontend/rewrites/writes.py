"""Writes into parts of a tensor become one concatenation of what was written and what was there.

`out[:, t] = h` in a loop is captured as a chain of `select_scatter`, each of which makes the whole
tensor anew. What is written is known piece by piece, and so is what a later step reads of it.
"""

from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule, Node

from sw.compiler.frontend.nodes import aten, shape
from sw.compiler.frontend.rewrites.tracing import called

_SELECT, _SLICE = aten.select.int, aten.slice.Tensor
_SELECT_WRITE, _SLICE_WRITE = aten.select_scatter.default, aten.slice_scatter.default
_WRITES = (_SELECT_WRITE, _SLICE_WRITE)


@dataclass(frozen=True)
class _Span:
    """The part of a tensor from `first` to before `last` of dimension `dim`."""

    dim: int
    first: int
    last: int

    @property
    def count(self) -> int:
        return self.last - self.first

    def holds(self, other: "_Span") -> bool:
        return self.first <= other.first and other.last <= self.last

    def is_apart(self, other: "_Span") -> bool:
        return self.last <= other.first or other.last <= self.first


def join_writes(module: GraphModule) -> None:
    """Rewrite a captured graph in place; it computes the same."""
    graph = module.graph
    if not any(node.target in _WRITES for node in graph.nodes):
        return
    for node in list(graph.nodes):
        if node.target is aten.copy.default:
            _without_copy(node)
        elif node.target in (_SELECT, _SLICE):
            _read_what_was_written(node)
    graph.eliminate_dead_code()
    for node in list(graph.nodes):
        if node.target in _WRITES and not _is_overwritten(node):
            _join(node)
    graph.eliminate_dead_code()


def _span(node: Node) -> _Span | None:
    """The part that a read or a write concerns; None where it is not one piece, or unknown."""
    given = node.args[2 if node.target in _WRITES else 1 :]
    size = shape(node.args[0])
    dim: Any = given[0] if given else node.kwargs.get("dim", 0)
    rest = {**dict(zip(("start", "end", "step"), given[1:], strict=False)), **node.kwargs}
    if node.target in (_SELECT, _SELECT_WRITE):
        index: Any = given[1] if len(given) > 1 else node.kwargs["index"]
        if not isinstance(index, int):
            return None
        index %= size[dim]
        return _Span(dim % len(size), index, index + 1)
    start, end, step = (rest.get(name) for name in ("start", "end", "step"))
    if step not in (None, 1) or any(not isinstance(v, int | None) for v in (start, end)):
        return None
    first, last, _ = slice(start, end).indices(size[dim])
    return _Span(dim % len(size), first, max(first, last))


def _without_copy(node: Node) -> None:
    """copy(x, y) is y where both have one shape and type."""
    new: Any = node.args[1]
    made, value = node.meta["val"], new.meta["val"]
    if made.shape == value.shape and made.dtype is value.dtype:
        node.replace_all_uses_with(new)


def _read_what_was_written(node: Node) -> None:
    """A part of a tensor is read from what was written there, or from before the write."""
    source: Any = node.args[0]
    part = _span(node)
    while part is not None and source.target in _WRITES:
        written = _span(source)
        if written is None or written.dim != part.dim:
            return
        if written.is_apart(part):
            source = source.args[0]
            node.update_arg(0, source)
        elif written.holds(part):
            moved = _Span(part.dim, part.first - written.first, part.last - written.first)
            with node.graph.inserting_before(node):
                node.replace_all_uses_with(_taken(node, source, moved))
            return
        else:
            return


def _taken(node: Node, write: Node, part: _Span) -> Node:
    """What `node` reads, of the value that `write` wrote; `part` is counted from its beginning."""
    value: Any = write.args[1]
    if write.target is _SELECT_WRITE:
        wide = node.target is _SLICE
        return called(node, aten.unsqueeze.default, value, part.dim) if wide else value
    if node.target is _SELECT:
        return called(node, _SELECT, value, part.dim, part.first)
    return _cut(node, value, part)


def _cut(at: Node, value: Node, part: _Span) -> Node:
    if part.count == shape(value)[part.dim]:
        return value
    return called(at, _SLICE, value, part.dim, part.first, part.last)


def _is_overwritten(node: Node) -> bool:
    """Whether only a write of the same dimension reads `node`: that one's pieces have its own."""
    if len(node.users) != 1:
        return False
    (user,) = node.users
    if user.target not in _WRITES or user.args[0] is not node or user.args[1] is node:
        return False
    mine, its = _span(node), _span(user)
    return mine is not None and its is not None and mine.dim == its.dim


def _join(last: Node) -> None:
    """The chain of writes that ends in `last` as a concatenation."""
    chain: list[Node] = []
    base: Any = last
    while base.target in _WRITES and (base is last or _is_overwritten(base)):
        chain.append(base)
        base = base.args[0]
    spans = [_span(write) for write in chain]
    if spans[0] is None:
        return
    dim, size = spans[0].dim, shape(last)[spans[0].dim]
    owners: list[Node] = [base] * size
    for write, span in zip(reversed(chain), reversed(spans), strict=True):
        assert span is not None
        owners[span.first : span.last] = [write] * span.count
    with last.graph.inserting_before(last):
        pieces, first = [], 0
        while first < size:
            end = first
            while end < size and owners[end] is owners[first]:
                end += 1
            pieces.append(_piece(last, owners[first], base, _Span(dim, first, end)))
            first = end
        joined = pieces[0] if len(pieces) == 1 else called(last, aten.cat.default, pieces, dim)
    last.replace_all_uses_with(joined)


def _piece(at: Node, owner: Node, base: Node, part: _Span) -> Node:
    if owner is base:
        return _cut(at, base, part)
    value: Any = owner.args[1]
    if owner.target is _SELECT_WRITE:
        return called(at, aten.unsqueeze.default, value, part.dim)
    written = _span(owner)
    assert written is not None
    return _cut(at, value, _Span(part.dim, part.first - written.first, part.last - written.first))
