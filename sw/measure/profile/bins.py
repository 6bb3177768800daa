"""A run in equal parts of time: what each engine did in each, and for which layer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spec.isa import Engine
from sw.measure.profile.layers import Profile
from sw.measure.profile.trace_records import Cycles
from sw.measure.profile.trace_spans import Span, state_sums

NO_LAYER = 0xFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """`count` parts of `width` cycles; the last one may reach beyond the run's end.

    charged: the layer that the cycle in the middle of each is charged to. layers: engine -> layer
    of the instruction there, `NO_LAYER` between instructions. states: engine -> [bins, states]
    cycles.
    """

    width: int
    count: int
    charged: NDArray[np.uint16]
    layers: dict[Engine, NDArray[np.uint16]]
    states: dict[Engine, NDArray[np.int64]]


def bins_of(profile: Profile, most: int) -> Bins:
    """At most `most` bins, whose width is a power of 2."""
    width = 1
    while -(-profile.cycles // width) > most:
        width *= 2
    count = -(-profile.cycles // width)
    edges = np.arange(count + 1, dtype=np.int64) * width
    starts, stops = edges[:-1], np.minimum(edges[1:], profile.cycles)
    middle = np.minimum(starts + width // 2, profile.cycles - 1)
    owners = np.array(profile.owners, np.int64)
    closing = np.searchsorted(profile.closed, middle, side="right")
    return Bins(
        width=width,
        count=count,
        charged=owners[np.minimum(closing, len(owners) - 1)].astype(np.uint16),
        layers={e: _layers(spans, middle, owners) for e, spans in profile.spans.items()},
        states={e: state_sums(t, starts, stops) for e, t in profile.recording.tracks.items()},
    )


def _layers(spans: Sequence[Span], middle: Cycles, owners: NDArray[np.int64]) -> NDArray[np.uint16]:
    out = np.full(len(middle), NO_LAYER, np.uint16)
    if not spans:
        return out
    starts, stops, index = (
        np.array([getattr(span, name) for span in spans]) for name in ("start", "stop", "index")
    )
    at = np.maximum(np.searchsorted(starts, middle, side="right") - 1, 0)
    inside = (starts[at] <= middle) & (middle < stops[at])
    out[inside] = owners[index[at[inside]]]
    return out
