"""What the scripts of a profile's page draw, as JSON."""

import base64
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spec.isa import Engine
from spec.memmap import Stall
from sw.measure.bound.causes import cause
from sw.measure.bound.groups import Group, grouped
from sw.measure.bound.layers import layer_facts
from sw.measure.profile.bins import bins_of
from sw.measure.profile.layers import Profile
from sw.measure.profile.memory_map import MemoryMap, memory_maps
from sw.measure.profile.page.graph import layer_edges, layout
from sw.measure.profile.report import utilization
from sw.runtime.report import ReportError

if TYPE_CHECKING:
    from sw.compiler.compilation import Compilation
    from sw.measure.profile.run import ProfiledRun

MOST_BINS = 1 << 14
"""Parts of a run that the time line knows. More would not be seen without zooming far in."""

MOST_SPANS = 20_000
"""Instructions that the time line has by themselves: the longest ones. All others are in its bins
alone."""

_WORK = (Stall.BUSY, Stall.BANK, Stall.PIPELINE)


def page_data(run: "ProfiledRun") -> dict[str, Any]:
    """Everything but the table: `time`, `memories`, `layers`, `graph`.

    `ReportError` for a program that was compiled before: its compilation is not known.
    """
    if run.compilation is None:
        raise ReportError(
            f"{run.report.name}: a compiled program tells nothing of its tensors, which the page "
            "draws; profile the model that it was made of"
        )
    layers = run.compilation.layers.layers
    placed = layout(len(layers), layer_edges(layers))
    maps = memory_maps(run.compilation, run.profile)
    return {
        "time": _time(run),
        "memories": [_memory(each) for each in maps],
        "layers": layer_rows(run.profile, run.compilation),
        "graph": {"x": placed.columns, "y": placed.ranks, "edges": placed.edges},
    }


def layer_rows(profile: Profile, compilation: "Compilation") -> list[dict[str, Any]]:
    """A row for each layer: figures, the states of its engines, why it loses cycles.

    loss: see `layer_losses`. why, mend: of the rules of `systola bound`, which here judge what the
    engines did in the profile.
    """
    groups = _groups(profile, compilation)
    # Layers that run together have one cause.
    causes = [c for g in groups for c in [cause(g, compilation.config)] * len(g.layers)]
    losses = [loss for group in groups for loss in layer_losses(group)]
    return [
        {
            "name": layer.name,
            "ops": ", ".join(f"{n} {op}" if n > 1 else op for op, n in Counter(layer.ops).items()),
            "module": layer.module,
            # A page is passed on: where the model lies on this machine says nothing elsewhere.
            "source": re.sub(r"^\S*[/\\]", "", layer.source),
            "cycles": layer.cycles,
            "predicted": layer.predicted_cycles,
            "least": round(layer.layer_bound),
            "loss": loss,
            "macs": layer.macs,
            "utilization": utilization(layer, profile),
            "read": layer.read_bytes,
            "written": layer.write_bytes,
            "bound": layer.bound,
            "states": [[row[s.name.lower()] for s in Stall] for row in _by_engine(layer.states)],
            "why": found.why,
            "mend": found.mend,
        }
        for layer, found, loss in zip(profile.layers, causes, losses, strict=True)
    ]


def layer_losses(group: Group) -> list[int]:
    """Cycles that the layers of a group lose: what the group takes above its bound, shared among
    the layers that are above theirs. A layer whose products were made in the cycles of an older
    one is below its bound, and the older one above: together they may lose nothing.
    """
    above = [max(0.0, layer.cycles - layer.bound) for layer in group.layers]
    share = max(0.0, group.loss) / (sum(above) or 1.0)
    return [round(each * share) for each in above]


def _by_engine(states: Any) -> list[Any]:
    return [states[engine.name.lower()] for engine in Engine]


def _groups(profile: Profile, compilation: "Compilation") -> list[Group]:
    """The layers with what the profile says of them, those that run together as one group."""
    work = _work(profile)
    known = zip(layer_facts(compilation), profile.layers, strict=True)
    return grouped(
        replace(
            facts,
            cycles=layer.cycles,
            busy={engine.name.lower(): float(work[i, engine]) for engine in Engine},
        )
        for i, (facts, layer) in enumerate(known)
    )


def _work(profile: Profile) -> NDArray[np.int64]:
    """[layer, engine] cycles in which the engine works for the layer, whoever is charged."""
    out = np.zeros((len(profile.layers), len(Engine)), np.int64)
    for engine, spans in profile.spans.items():
        states = (Stall.BUSY,) if engine is Engine.FETCH else _WORK
        for span in spans:
            out[profile.owners[span.index], engine] += sum(span.states[s] for s in states)
    return out


def _time(run: "ProfiledRun") -> dict[str, Any]:
    """The time line: bins of all engines, and the longest instructions."""
    profile = run.profile
    bins = bins_of(profile, MOST_BINS)
    # Shares of a bin in 255 parts; the table has the exact sums.
    shares = {
        e: np.rint(sums * 255 / np.maximum(sums.sum(1, keepdims=True), 1)).astype(np.uint8)
        for e, sums in bins.states.items()
    }
    return {
        "cycles": profile.cycles,
        "width": bins.width,
        "count": bins.count,
        "engines": [engine.name.lower() for engine in Engine],
        "states": [state.name.lower() for state in Stall],
        "charged": _packed(bins.charged),
        "owners": [_packed(bins.layers[engine]) for engine in Engine],
        "shares": [_packed(shares[engine]) for engine in Engine],
        "spans": _spans(profile, run.notes),
    }


def _spans(profile: Profile, notes: Sequence[str]) -> dict[str, Any]:
    """The longest instructions, by engine and time, as columns. `notes`: each text once."""
    every = [
        span
        for engine, spans in profile.spans.items()
        if engine is not Engine.FETCH
        for span in spans
        if span.stop > span.start
    ]
    kept = sorted(every, key=lambda s: s.start - s.stop)[:MOST_SPANS]
    kept.sort(key=lambda s: (s.engine, s.start))
    texts: dict[str, int] = {}
    numbers = [texts.setdefault(notes[span.index], len(texts)) for span in kept]
    return {
        "left_out": len(every) - len(kept),
        "engine": [int(span.engine) for span in kept],
        "start": [span.start for span in kept],
        "length": [span.stop - span.start for span in kept],
        "layer": [profile.owners[span.index] for span in kept],
        "note": numbers,
        "notes": list(texts),
    }


def _memory(found: MemoryMap) -> dict[str, Any]:
    """A memory; its lives as columns."""
    lives = found.lives
    names: dict[str, int] = {}
    return {
        "name": found.name,
        "unit": found.unit,
        "size": found.size,
        "name_of": [names.setdefault(life.name, len(names)) for life in lives],
        "names": list(names),
        "layer": [life.layer for life in lives],
        "start": [life.start for life in lives],
        "length": [life.stop - life.start for life in lives],
        "low": [life.low for life in lives],
        "size_of": [life.high - life.low for life in lives],
        "count": [life.count for life in lives],
    }


def _packed(numbers: NDArray[Any]) -> str:
    """Little-endian bytes in base64."""
    return base64.b64encode(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()).decode()
