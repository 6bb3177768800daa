"""Regions of a framework's graph: the nodes of a stage that run on the NPU."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from sw.torch_backend.partition import stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """nodes: positions in the graph, those of constants too. inputs, outputs: names of values.

    own: the positions that run in this region and nowhere else.
    """

    own: tuple[int, ...]
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Who makes and who reads each value of a graph, by names.

    reads, makes: of each node, in an order of execution. results: of the graph. free: positions of
    the nodes that inputs reach. fixed: of those that no input reaches, and that regions copy.
    constants: values that regions bring themselves. grids: values that are integers of a quantized
    value.
    """

    reads: Sequence[Sequence[str]]
    makes: Sequence[Sequence[str]]
    results: Collection[str]
    free: Sequence[int]
    fixed: Collection[int] = frozenset()
    constants: Collection[str] = frozenset()
    grids: Collection[str] = frozenset()
    makers: dict[str, int] = field(init=False)
    readers: dict[str, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        makers = {name: i for i, made in enumerate(self.makes) for name in made}
        readers: dict[str, list[int]] = {}
        for i in self.free:
            for name in self.reads[i]:
                readers.setdefault(name, []).append(i)
        object.__setattr__(self, "makers", makers)
        object.__setattr__(self, "readers", readers)

    def operands(self, position: int) -> list[int]:
        """The nodes that make what a node reads."""
        return [self.makers[name] for name in self.reads[position] if name in self.makers]


def split(flow: Flow, why: dict[int, str]) -> list[Region]:
    """The regions without the nodes of `why`, as few as can be; it grows by what lies in between.

    Integers of quantized values never cross: what makes them is where all that read them are.
    """
    _keep_grids_whole(flow, why)
    npu = {i for i in flow.free if i not in why}
    found = stages(flow.free, flow.operands, npu)
    groups: dict[int, list[int]] = {}
    for i in flow.free:
        if i in npu:
            groups.setdefault(found[i], []).append(i)
    return [_region(flow, groups[stage]) for stage in sorted(groups)]


def _keep_grids_whole(flow: Flow, why: dict[int, str]) -> None:
    """Refuse what makes or reads quantized values of which the other side is not on the NPU."""
    free = set(flow.free)
    steps = [name for name, i in flow.makers.items() if i in free and name in flow.grids]
    before = -1
    while before != len(why):
        before = len(why)
        for name in steps:
            around = [flow.makers[name], *flow.readers.get(name, ())]
            if name in flow.results or any(i in why for i in around):
                for i in around:
                    why.setdefault(i, "its integers are made or read on the CPU")


def _region(flow: Flow, own: list[int]) -> Region:
    nodes = sorted({*own, *_constants(flow, own)})
    made = {name for i in nodes for name in flow.makes[i]}
    read = dict.fromkeys(name for i in nodes for name in flow.reads[i])
    outside = {n for i in flow.free if i not in set(own) for n in flow.reads[i]}
    outside |= set(flow.results)
    return Region(
        own=tuple(own),
        nodes=tuple(nodes),
        inputs=tuple(n for n in read if n not in made and n not in flow.constants),
        outputs=tuple(n for i in own for n in flow.makes[i] if n in outside),
    )


def _constants(flow: Flow, own: Iterable[int]) -> set[int]:
    """The fixed nodes that these are computed from."""
    found: set[int] = set()
    todo = [j for i in own for j in flow.operands(i) if j in flow.fixed]
    while todo:
        i = todo.pop()
        if i not in found:
            found.add(i)
            todo += [j for j in flow.operands(i) if j in flow.fixed]
    return found
