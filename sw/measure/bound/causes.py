"""Why layers lose cycles, and what would mend it: rules on what the engines do in them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from spec.config import NpuConfig
from sw.compiler.machine.costs import weight_cycles
from sw.measure.bound.groups import Group
from sw.measure.bound.layers import LayerFacts

MIN_ACTIVITY = 0.5
"""An engine that works in less than this share of the cycles does not explain them."""


def operators(layer: LayerFacts) -> str:
    """What a layer computes: its operators without those that only change formats."""
    kinds = [kind for kind in layer.ops if kind not in ("RESCALE", "CAST", "RESHAPE")]
    most = ", ".join(list(dict.fromkeys(kinds or layer.ops))[:4])
    return most if len(set(kinds)) <= 4 else f"{most} … ({len(layer.ops)} operators)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """engine: that works in most of the cycles, or `waits`. why and mend: for people."""

    engine: str
    why: str
    mend: str


def cause(group: Group, config: NpuConfig) -> Cause:
    """The cause of a group's loss: that of the layer in it which loses most."""
    layer = group.worst
    busy = {name: cycles for name, cycles in layer.busy.items() if cycles}
    engine = max(busy, key=lambda name: busy[name], default="")
    if not engine or busy[engine] < MIN_ACTIVITY * layer.cycles:
        share = busy.get(engine, 0.0) / max(layer.cycles, 1.0)
        return _placed(_waits(layer, engine, share), layer)
    return _placed(_RULES[engine](layer, config), layer)


def _placed(found: Cause, layer: LayerFacts) -> Cause:
    """The cause with the neighbours that a layer without a product could have been fused with."""
    if layer.product:
        return found
    readers = ", ".join(layer.after[:2]) + (" …" if len(layer.after) > 2 else "")
    why = f"{found.why}; it reads {layer.before or 'an input'}"
    why += f" and {readers} reads it" if readers else ""
    fused = layer.alone and layer.before.endswith(("(conv)", "(depthwise)"))
    mend = f"missing fusion with {layer.before}: {found.mend}" if fused else found.mend
    return replace(found, why=why, mend=mend)


def _waits(layer: LayerFacts, engine: str, share: float) -> Cause:
    return Cause(
        engine="waits",
        why=f"engines wait for one another and for memory: {engine or 'fetch'}, the busiest, works "
        f"in {share:.0%} of the cycles",
        mend="keep tensors on chip, run the layer beside a neighbour, or fuse it into one",
    )


def _matrix(layer: LayerFacts, config: NpuConfig) -> Cause:
    if layer.kind == "transpose":
        return Cause(
            engine="matrix",
            why=f"the array transposes {layer.write_bytes:,} bytes, once or twice",
            mend="let the writer or the reader use this order",
        )
    if layer.columns < config.cols:
        return Cause(
            engine="matrix",
            why=f"the result has {layer.columns} channels, the array {config.cols} columns",
            mend="several output pixels, taps or groups side by side in the columns",
        )
    filled = layer.macs / (layer.vectors * config.pes) if layer.vectors else 0.0
    per_fold = layer.vectors / layer.folds if layer.folds else 0.0
    if layer.folds and per_fold < weight_cycles(config):
        return Cause(
            engine="matrix",
            why=f"a fold of weights serves {per_fold:.1f} vectors, and loading the next one takes "
            f"{weight_cycles(config)} cycles",
            mend="more vectors a fold (other order of loops), or operands exchanged",
        )
    if filled < 0.9:
        return Cause(
            engine="matrix",
            why=f"{filled:.0%} of the array's elements are in use: the depth of the products or "
            f"{layer.columns} columns are no multiple of its sides, or operands of int16 take two "
            "passes",
            mend="pack more taps or channels into a fold; groups side by side",
        )
    return Cause(
        engine="matrix",
        why="the array works, but not without gaps: fills, drains, first loads",
        mend="overlap the layer's begin and end with its neighbours",
    )


def _vector(layer: LayerFacts, config: NpuConfig) -> Cause:
    if layer.product:
        return Cause(
            engine="vector",
            why="the epilogue takes longer than the product: "
            f"{layer.busy.get('vector', 0):,.0f} cycles against "
            f"{layer.busy.get('matrix', layer.busy.get('depthwise', 0)):,.0f}",
            mend="fewer passes over the result, or beside another product",
        )
    if layer.kind == "pool":
        return Cause(
            engine="vector",
            why="a window is read tap by tap, a cycle or two each",
            mend="rows first, then columns; or behind the product that it follows",
        )
    return Cause(
        engine="vector",
        why=f"{operators(layer)} on the vector engine while the array has nothing to do",
        mend="as epilogue of the product before, in fewer steps, or beside another product",
    )


def _load(layer: LayerFacts, config: NpuConfig) -> Cause:
    if layer.kind in ("move", "gather"):
        return Cause(
            engine="load",
            why=f"copies {layer.read_bytes:,} bytes ({layer.read_bytes / max(layer.runs, 1):.0f} "
            f"a run): {', '.join(dict.fromkeys(layer.ops)) or 'a copy'}",
            mend="let the writer or the reader use these strides, or keep it on chip",
        )
    total = layer.read_bytes + layer.weight_bytes
    constants = "weights" if layer.product and layer.kind != "fused" else "tables and parameters"
    part = constants if layer.weight_bytes > layer.read_bytes else "activations"
    return Cause(
        engine="load",
        why=f"the bus: {total:,} bytes, most of them {part} "
        f"({layer.weight_bytes:,} of {constants})",
        mend="keep the input on chip, larger tiles, or weights ahead of time"
        if part == "activations"
        else f"{constants} once and ahead of time: another order of loops, or of layers",
    )


def _store(layer: LayerFacts, config: NpuConfig) -> Cause:
    moved = "copies" if layer.kind in ("move", "gather") else "writes"
    return Cause(
        engine="store",
        why=f"{moved} {layer.write_bytes:,} bytes to memory",
        mend="keep the result on chip, or let its reader follow row by row",
    )


def _depthwise(layer: LayerFacts, config: NpuConfig) -> Cause:
    return Cause(
        engine="depthwise",
        why="the depthwise engine: columns of padding, strides and channels that do not fill "
        f"{config.cols} lanes take its cycles",
        mend="beside the products around it",
    )


def _fetch(layer: LayerFacts, config: NpuConfig) -> Cause:
    return Cause(
        engine="fetch",
        why="many small instructions: their bytes take the bus",
        mend="fewer, larger tiles; several rows or heads an instruction",
    )


_RULES: dict[str, Callable[[LayerFacts, NpuConfig], Cause]] = {
    "matrix": _matrix,
    "vector": _vector,
    "load": _load,
    "store": _store,
    "depthwise": _depthwise,
    "fetch": _fetch,
}
