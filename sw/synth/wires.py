"""What the wires of a net weigh before anything is placed: the wire-load models of a library."""

from dataclasses import dataclass

import numpy as np

from spec.names import did_you_mean
from sw.synth.errors import SynthError
from sw.synth.liberty import Group
from sw.synth.lookup import TableReader
from sw.synth.tables import Floats

NO_WIRES = "none"
"""The name that asks for wires of no capacitance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireLoad:
    """A wire-load model: the length of a net's wires by how many inputs it drives.

    capacitance : picofarads for a unit of length. fanouts, lengths : the model's points, fan-outs
    rising; slope : length for each input more than the last point has.
    """

    name: str
    capacitance: float
    slope: float
    fanouts: tuple[float, ...]
    lengths: tuple[float, ...]

    def loads(self, fanouts: Floats) -> Floats:
        """Picofarads of the wires of nets that drive so many inputs; 0 of one that drives none."""
        lengths = np.interp(fanouts, self.fanouts, self.lengths)
        below = np.maximum(0, self.fanouts[0] - fanouts)
        beyond = np.maximum(0, fanouts - self.fanouts[-1])
        lengths = np.maximum(0, lengths + self.slope * (beyond - below))
        return np.where(fanouts > 0, lengths * self.capacitance, 0.0)


def wire_load(tree: Group, name: str = "") -> WireLoad | None:
    """The wire-load model of that name, or the library's default one; None where it has none.

    `SynthError` for a name that the library does not have, or a model without points.
    """
    chosen = name or tree.text("default_wire_load")
    if name == NO_WIRES or not chosen:
        return None
    models = {group.name: group for group in tree.all("wire_load")}
    if chosen not in models:
        if not name:
            return None
        near = did_you_mean(name, models)
        known = ", ".join([*models, NO_WIRES])
        raise SynthError(
            f"--wire-load {name}: no such model in {tree.name}{near}; there are {known}"
        )
    model = models[chosen]
    numbers = model.attributes.get("fanout_length", [])
    try:
        points = sorted(
            (float(n), float(length)) for n, length in zip(numbers[::2], numbers[1::2], strict=True)
        )
    except ValueError:
        points = []
    if not points:
        raise SynthError(
            f"wire_load ({chosen}) of {tree.name}: it has no fanout_length (N, LENGTH)"
        )
    return WireLoad(
        name=chosen,
        capacitance=model.number("capacitance", 0.0) * TableReader(tree).load,
        slope=model.number("slope", 0.0),
        fanouts=tuple(n for n, _ in points),
        lengths=tuple(length for _, length in points),
    )
