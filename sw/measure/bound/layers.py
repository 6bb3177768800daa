"""What the prediction knows of each layer: cycles, bound, and the work of every engine."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spec.isa import Engine
from spec.program import REGION_CONST
from sw.compiler.compilation import Compilation
from sw.compiler.kernels.base import Layer
from sw.compiler.machine.costs import instruction_bytes
from sw.compiler.program.records import Load, Matrix, Store
from sw.compiler.program.timeline import LayerTime, layer_times
from sw.compiler.program.virtual import Place, VirtualInstruction, iterations


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFacts:
    """One layer of a program, as predicted.

    kind: `conv`, `depthwise`, `fused`, `elementwise`, `pool`, `move`, `gather`, `resize` or
    `transpose`. product: whether it computes one. shape: of what it reads first and of its result.
    cycles: charged to it. bound: see `tosa/bound.py`. busy: cycles in which each engine works on
    it; `fetch` has those of its instructions on the bus. weight_bytes, read_bytes, write_bytes:
    that its LOADs read of constants and of tensors, and that its STOREs write. runs: contiguous
    pieces of the latter two. vectors, folds: of its MATRIX instructions. columns: channels of its
    result. before: the layer that wrote what it reads first, as `name (kind)`, "" for an input of
    the network. after: those that read its result. alone: whether it is the only reader of
    `before`.
    """

    name: str
    kind: str
    ops: tuple[str, ...]
    module: str
    product: bool
    shape: str
    macs: int
    cycles: float
    bound: float
    busy: Mapping[str, float]
    weight_bytes: int
    read_bytes: int
    write_bytes: int
    runs: int
    vectors: int
    folds: int
    columns: int
    before: str = ""
    after: tuple[str, ...] = ()
    alone: bool = False


@dataclass(slots=True)
class _Traffic:
    weight_bytes: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    runs: int = 0
    vectors: int = 0
    folds: int = 0
    program_bytes: int = 0

    def add(self, instruction: VirtualInstruction) -> None:
        self.program_bytes += instruction_bytes(instruction.opcode)
        record = instruction.record
        steps = iterations(record.loop, len(record.loop))
        if isinstance(record, Load) and not record.fill:
            self._moved(instruction, steps * record.run, steps)
        elif isinstance(record, Store):
            self.write_bytes += steps * record.run
            self.runs += steps
        elif isinstance(record, Matrix):
            self.vectors += steps
            self.folds += iterations(record.loop, record.fold_loops)

    def _moved(self, instruction: VirtualInstruction, size: int, runs: int) -> None:
        memory = instruction.bases.get("mem_base")
        if memory is not None and memory.place is Place.DRAM and memory.region == REGION_CONST:
            self.weight_bytes += size
        else:
            self.read_bytes += size
            self.runs += runs


def layer_facts(compilation: Compilation) -> list[LayerFacts]:
    """The facts of every layer, in the order of the program."""
    layers = compilation.layers.layers
    times = layer_times(compilation.program.dependences, len(layers), compilation.config)
    moved: dict[int, _Traffic] = defaultdict(_Traffic)
    for instruction in compilation.program.instructions:
        moved[instruction.layer].add(instruction)
    rows = zip(layers, compilation.image.info["layers"], times, strict=True)
    width = compilation.config.bus_bytes
    found = [_facts(*row, moved[i], width) for i, row in enumerate(rows)]
    return [replace(facts, **near) for facts, near in zip(found, _neighbours(layers), strict=True)]


def _neighbours(layers: Sequence[Layer]) -> list[dict[str, Any]]:
    """`before`, `after` and `alone` of each layer."""
    # Parts of a tensor have writers of their own.
    writers: dict[str, list[int]] = defaultdict(list)
    sources: list[int | None] = []
    readers: dict[int, list[int]] = defaultdict(list)
    for i, layer in enumerate(layers):
        names = list(dict.fromkeys(view.tensor for view in layer.inputs))
        sources.append(writers[names[0]][-1] if names and writers[names[0]] else None)
        for at in dict.fromkeys(at for name in names for at in writers[name]):
            readers[at].append(i)
        for name in dict.fromkeys(view.tensor for view in layer.outputs):
            writers[name].append(i)
    titles = [f"{layer.name} ({_kind(layer)})" for layer in layers]
    return [
        {
            "before": "" if source is None else titles[source],
            "after": tuple(titles[reader] for reader in readers[i]),
            "alone": source is not None and len(readers[source]) == 1,
        }
        for i, source in enumerate(sources)
    ]


def _kind(layer: Layer) -> str:
    return type(layer).__name__.removesuffix("Layer").lower()


def _facts(
    layer: Layer, info: Mapping[str, object], time: LayerTime, moved: _Traffic, width: int
) -> LayerFacts:
    busy = {engine.name.lower(): cycles for engine, cycles in time.busy.items()}
    busy[Engine.FETCH.name.lower()] = moved.program_bytes / width
    return LayerFacts(
        name=layer.name,
        kind=_kind(layer),
        ops=layer.ops,
        module=str(info["module"]),
        product=bool(layer.product_op),
        shape=_shape(layer),
        macs=int(str(info["macs"])),
        cycles=time.cycles,
        bound=float(str(info["layer_bound"])),
        busy=busy,
        weight_bytes=moved.weight_bytes,
        read_bytes=moved.read_bytes,
        write_bytes=moved.write_bytes,
        runs=moved.runs,
        vectors=moved.vectors,
        folds=moved.folds,
        columns=layer.output.shape[-1],
    )


def _shape(layer: Layer) -> str:
    """`8×8×64 → 8×8×32, 3×3`: without dimensions of 1 in front; of a fused layer what it spans."""
    whole = getattr(layer, "shape", ())
    before = layer.inputs[0].shape if layer.inputs else ()
    text = _times(layer.output.shape)
    if getattr(layer, "registers", None):
        return _times(whole)
    if before and any(n > 1 for n in before):
        text = f"{_times(before)} → {text}"
    kernel = getattr(layer, "kernel", (1, 1))
    return text if tuple(kernel) == (1, 1) else f"{text}, {_times(tuple(kernel))}"


def _times(shape: Sequence[int]) -> str:
    first = next((i for i, n in enumerate(shape) if n > 1), len(shape) - 1)
    return "×".join(map(str, shape[max(0, first) :]))
