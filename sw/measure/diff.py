"""Layer by layer: the NPU's tensors beside those of PyTorch's own int8 graph.

Free-running, the network runs as a whole, and rounding differences travel on from layer to layer.
Fed, every layer gets PyTorch's integers as its inputs, so that each difference is its own.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spec.errors import SystolaError
from sw.compiler.tosa.graph import DTYPES, Graph
from sw.runtime.device import Device

if TYPE_CHECKING:
    from sw.compiler.compilation import Compilation
    from sw.compiler.frontend.ports import ModelPort
    from sw.compiler.kernels.base import Layer

Array = NDArray[Any]
Known: TypeAlias = "Mapping[str, ModelPort]"
"""`Imported.quantized`: node of PyTorch's graph -> the tensor with the same integers."""

FED = "{}.fed"
"""Name of the input that brings PyTorch's integers in place of a tensor."""


class DiffError(SystolaError, ValueError):
    """Tensors that cannot be compared."""


class MemoryDevice(Device, Protocol):
    """A device whose memory can be looked at: golden and RTL."""

    def memory(self, region: int) -> NDArray[np.uint8]:
        """A copy of all bytes of a region of the loaded image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """What a layer may differ by.

    lsb: largest difference of an element. share: of the elements that differ (one always may, in
    an average pool `TIES`). sqnr_db: least ratio of the signal's power to that of the differences.
    None: any.
    """

    lsb: int | None = None
    share: float | None = None
    sqnr_db: float | None = None


FED_TOLERANCE = Tolerance(lsb=1, share=0.001)
FREE_TOLERANCE = Tolerance(sqnr_db=20.0)
WIDE_TOLERANCE = Tolerance(sqnr_db=20.0)
"""Fed layers under policy `wide`: PyTorch's floats, rounded to the formats of the NPU."""
TIES = 0.05
"""Share of elements that may differ in an average pool: TOSA rounds halves up, PyTorch to even."""


def usual_tolerance(policy: str, fed: bool) -> Tolerance:
    """What layers of a model of that policy are expected to keep within."""
    if not fed:
        return FREE_TOLERANCE
    return WIDE_TOLERANCE if policy == "wide" else FED_TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDiff:
    """A tensor of the NPU beside the value of PT2E node `node`.

    layer, module: the layer that wrote it and the user's submodule. max_lsb: largest difference.
    differing: elements that differ. pcc: Pearson's correlation. sqnr_db: infinite if equal.
    """

    layer: str
    ops: tuple[str, ...]
    module: str
    source: str
    tensor: str
    node: str
    elements: int
    max_lsb: int
    differing: int
    pcc: float
    sqnr_db: float

    def exceeds(self, tolerance: Tolerance) -> bool:
        """Whether it differs by more than `tolerance`."""
        share = tolerance.share
        if share is not None and "AVG_POOL2D" in self.ops:
            share = max(share, TIES)
        few = share is None or self.differing <= max(1, share * self.elements)
        small = tolerance.lsb is None or self.max_lsb <= tolerance.lsb
        clear = tolerance.sqnr_db is None or self.sqnr_db >= tolerance.sqnr_db
        return not (few and small and clear)


def fed_graph(graph: Graph, known: Known) -> Graph:
    """`graph` cut at every known tensor: it becomes an output, and its readers read an input."""
    cut = graph.copy()
    produced = {out for op in cut.ops for out in op.outputs}
    tensors = list(dict.fromkeys(p.name for p in known.values() if p.name in produced))
    readers = {name for op in cut.ops for name in op.inputs}
    for name in tensors:
        if name in readers:
            old = cut.tensors[name]
            cut.add_input(
                FED.format(name),
                old.shape,
                old.dtype,
                scale=old.scale,
                zero_point=old.zero_point,
            )
    fed = {name: FED.format(name) for name in tensors}
    for op in cut.ops:
        op.inputs = [fed.get(name, name) for name in op.inputs]
    cut.outputs = tensors
    return cut


def run_fed(
    graph: Graph,
    known: Known,
    want: Mapping[str, Array],
    device: Device,
) -> "tuple[Compilation, dict[str, Array]]":
    """Every layer on PyTorch's integers `want` (by tensor): (what was compiled, its tensors)."""
    from sw.compiler.pipeline import run_stages
    from sw.runtime.session import run_image

    cut = fed_graph(graph, known)
    compilation = run_stages(cut, device.config, name=f"{graph.name} fed")
    originals = {FED.format(name): name for name in cut.outputs}
    inputs = {name: want[originals.get(name, name)] for name in cut.inputs}
    return compilation, run_image(compilation.image, inputs, device)[0]


def run_free(
    graph: Graph, inputs: Mapping[str, Array], device: MemoryDevice
) -> "tuple[Compilation, dict[str, Array]]":
    """The network as a whole: (what was compiled, every layer's result by tensor)."""
    from sw.compiler.pipeline import run_stages
    from sw.runtime.session import run_image

    compilation = run_stages(graph, device.config, name=graph.name, keep_all=True)
    run_image(compilation.image, inputs, device)
    return compilation, kept_tensors(compilation, device)


def kept_tensors(compilation: "Compilation", device: MemoryDevice) -> dict[str, Array]:
    """The tensors that layers wrote, read from memory after a run of a `keep_all` program."""
    found = {}
    for layer, name in _written(compilation):
        tensor = compilation.graph.tensors.get(name)
        if tensor is None:
            continue
        buffer = compilation.tensors[layer.output.tensor]
        data = device.memory(buffer.region)[buffer.address : buffer.address + buffer.size]
        found[name] = data.view(DTYPES[tensor.dtype]).reshape(tensor.shape)
    return found


def _written(compilation: "Compilation") -> "Iterator[tuple[Layer, str]]":
    """Each layer with the tensor of the graph that it writes.

    That is an output of the graph where the layer writes its bytes under another name.
    """
    stored = compilation.layers.storage.outputs
    outputs = {stored.get(name, name): name for name in compilation.graph.outputs}
    for layer in compilation.layers.layers:
        yield layer, outputs.get(layer.output.tensor, layer.output.tensor)


def compare_layers(
    compilation: "Compilation",
    got: Mapping[str, Array],
    known: Known,
    want: Mapping[str, Array],
    modules: Mapping[str, str],
) -> list[LayerDiff]:
    """A row per tensor that both sides have, in execution order."""
    nodes = {port.name: node for node, port in reversed(list(known.items()))}
    rows: dict[str, LayerDiff] = {}
    for layer, name in _written(compilation):
        if name in got and name in nodes:
            zero_point = compilation.graph.tensors[name].zero_point
            rows[name] = _row(
                {
                    "layer": layer.name,
                    "ops": layer.ops,
                    "module": modules.get(layer.name, ""),
                    "source": layer.source,
                    "tensor": name,
                    "node": nodes[name],
                },
                got[name],
                want[name],
                zero_point,
            )
    if not rows:
        raise DiffError("no tensor of the program has a counterpart in PyTorch's graph")
    return list(rows.values())


def _row(names: Mapping[str, Any], got: Array, want: Array, zero_point: int) -> LayerDiff:
    if got.size != want.size:
        raise DiffError(
            f"tensor {names['tensor']} has {got.size} elements, node {names['node']} {want.size}"
        )
    a, b = (x.reshape(-1).astype(np.int64) for x in (got, want))
    off = a - b
    signal, noise = float(((b - zero_point) ** 2).sum()), float((off**2).sum())
    return LayerDiff(
        **names,
        elements=a.size,
        max_lsb=int(np.abs(off).max(initial=0)),
        differing=int(np.count_nonzero(off)),
        pcc=1.0 if not noise else _pcc(a, b),
        sqnr_db=sqnr_db(signal, noise),
    )


def _pcc(a: Array, b: Array) -> float:
    from sw.models.catalog import pcc

    return pcc(a, b)


def sqnr_db(signal: float, noise: float) -> float:
    """10·log10 of the ratio; infinite without noise."""
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def first_beyond(rows: Sequence[LayerDiff], tolerance: Tolerance) -> LayerDiff | None:
    """The first layer in execution order that differs by more than the tolerance."""
    return next((row for row in rows if row.exceeds(tolerance)), None)
