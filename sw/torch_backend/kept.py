"""Which variants are kept: those used last, over all graphs of one piece of a model.

Dynamo may make several graphs of one function, the first for one batch and the next for any. The
option `variants` limits what is kept of all of them together.
"""

import weakref
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Protocol

from torch._guards import CompileContext
from torch.fx import GraphModule

Key = tuple[Any, ...]


class Owner(Protocol):
    """A graph that gives up one of its variants when told to."""

    def drop(self, key: Key) -> None: ...


class Kept:
    """The variants of one piece of a model in order of their last use."""

    def __init__(self) -> None:
        self._used: OrderedDict[tuple[int, Key], weakref.ref[Owner]] = OrderedDict()

    def use(self, owner: Owner, key: Key, limit: int) -> int:
        """Note that a variant is used. Drops the oldest beyond `limit`; returns how many."""
        self._used[id(owner), key] = weakref.ref(owner)
        self._used.move_to_end((id(owner), key))
        for entry in [e for e, holder in self._used.items() if holder() is None]:
            del self._used[entry]
        dropped = 0
        while len(self._used) > limit:
            (_, oldest), holder = next(iter(self._used.items()))
            graph = holder()
            assert graph is not None
            graph.drop(oldest)
            dropped += 1
        return dropped

    def forget(self, owner: Owner, key: Key) -> None:
        """A variant that its graph has given up."""
        self._used.pop((id(owner), key), None)


class Families:
    """`Kept` by piece of a model; those of graphs that torch has thrown away vanish."""

    def __init__(self) -> None:
        self._families: weakref.WeakValueDictionary[Hashable, Kept] = weakref.WeakValueDictionary()

    def of(self, module: GraphModule, place: str, options: Any) -> Kept:
        """What a graph that Dynamo is compiling right now shares with earlier ones."""
        compiling = CompileContext.current_compile_id()
        frame = None if compiling is None else compiling.frame_id
        # Dynamo compiles all modules of torch.nn itself in one frame: parameters tell them apart.
        names = [n.name for n in module.graph.nodes if n.op == "placeholder" and _is_parameter(n)]
        key = (frame, place, tuple(names), id(options))
        kept = self._families.get(key)
        if kept is None:
            kept = self._families[key] = Kept()
        return kept


def _is_parameter(node: Any) -> bool:
    notes = node.meta.get("tensor_dict") or {}
    return bool(notes.get("_dynamo_static_input_type"))
