"""Where a program's cycles go, layer by layer: measured on the RTL, explained, and as predicted.

Engines work on several layers at once. A cycle is charged to the layer of the oldest instruction
that is not done in it (as a processor accounts cycles at commit): so the layers' cycles sum to the
run's, also where layers are interleaved. Within a layer's cycles each engine was in one of six
states, which sum to them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.isa import Engine, Instruction, Opcode
from spec.memmap import Stall
from spec.notebook import summary
from spec.program import Image
from sw.measure.profile.trace_records import Recording, read_recording
from sw.measure.profile.trace_spans import Span, closings, engine_spans, state_sums
from sw.runtime.device import RunResult
from sw.runtime.scratch import Scratch
from sw.runtime.simulator.errors import SimulationError

if TYPE_CHECKING:
    from sw.runtime.session import Arrays, DeviceOptions

LATENCY = "latency"
MIN_ACTIVITY = 0.5
"""A layer is bound by an engine that works in more than this share of its cycles."""

_WORK = (Stall.BUSY, Stall.BANK, Stall.PIPELINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerProfile:
    """One layer. module, source: of the user's model. cycles: charged to it.

    states: engine -> state -> cycles; each engine's sum to the layer's. read_bytes: bus words that
    its LOADs read; write_bytes: what its STOREs write. layer_bound: see `tosa/bound.py`; bound: see
    `bound_by`.
    """

    name: str
    ops: tuple[str, ...]
    module: str
    source: str
    macs: int
    cycles: int
    predicted_cycles: int
    layer_bound: float
    read_bytes: int
    write_bytes: int
    states: Mapping[str, Mapping[str, int]]
    bound: str

    @property
    def ratio(self) -> float | None:
        """Predicted over measured."""
        return self.predicted_cycles / self.cycles if self.cycles else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A run of `image`: its layers in order, and every instruction's span on its engine."""

    image: Image
    result: RunResult
    layers: tuple[LayerProfile, ...]
    spans: Mapping[Engine, Sequence[Span]]
    owners: Sequence[int]
    closed: NDArray[np.int64]
    recording: Recording

    @property
    def cycles(self) -> int:
        return self.recording.cycles

    def _repr_html_(self) -> str:
        """What a notebook shows: the layers, and what bounds each."""
        facts = [("cycles", self.cycles), ("predicted cycles", self.predicted_cycles)]
        head = ("layer", "cycles", "share, %", "bound", "predicted", "read", "written", "bound by")
        rows = [
            [
                *(layer.name, layer.cycles, 100 * layer.cycles / max(self.cycles, 1)),
                *(layer.layer_bound, layer.predicted_cycles),
                *(layer.read_bytes, layer.write_bytes, layer.bound),
            ]
            for layer in self.layers
        ]
        return summary(f"Profile of {self.image.info.get('name', '')}", facts, head, rows)

    @property
    def predicted_cycles(self) -> int:
        return sum(layer.predicted_cycles for layer in self.layers)


def record(
    image: Image, inputs: "Arrays", config: NpuConfig, options: "DeviceOptions"
) -> "tuple[Profile, Arrays]":
    """Run `image` on the RTL once and analyse it; also returns its outputs."""
    from sw.runtime.rtl import RtlDevice
    from sw.runtime.session import run_image

    with Scratch("profile") as scratch:
        path = scratch.path / "events.bin"
        with RtlDevice(
            config,
            latency=options.latency,
            stall=options.stall,
            seed=options.seed,
            memory=options.memory,
            clock_mhz=options.clock_mhz,
            events=path,
        ) as device:
            outputs, result = run_image(image, inputs, device)
        return analyse(image, result, read_recording(path)), outputs


def analyse(image: Image, result: RunResult, recording: Recording) -> Profile:
    """Charge every cycle; `SimulationError` if the record contradicts the hardware's counters."""
    counters = {e.name.lower(): track.counters() for e, track in recording.tracks.items()}
    # Hardware without such counters is recorded all the same.
    result = result if result.counters else replace(result, counters=counters)
    if recording.cycles != result.cycles or counters != result.counters:
        raise SimulationError(
            f"the record of the run has {recording.cycles} cycles and {counters}, the NPU counted "
            f"{result.cycles} and {result.counters}"
        )
    program = image.instructions()
    last = int(recording.tracks[Engine.FETCH].index.max(initial=0))
    if last != len(program) - 1:
        raise SimulationError(
            f"the record of the run ends at instruction {last} of {len(program)}: it is of another "
            "program, or of one that is longer than the hardware's instruction index"
        )
    owners = instruction_owners(image)
    spans = engine_spans(recording, program)
    closed = closings(spans, len(program), recording.cycles)
    layers = image.info["layers"]
    states = _layer_states(recording, closed, owners, len(layers))
    moved = np.zeros((len(layers), 2), np.int64)
    for i, (owner, instruction) in enumerate(zip(owners, program, strict=True)):
        read = recording.words.get(i, 0) * image.config.bus_bytes
        moved[owner] += (read, written_bytes(instruction))
    made = [
        _layer(layer, states[i], (int(moved[i][0]), int(moved[i][1])))
        for i, layer in enumerate(layers)
    ]
    return Profile(
        image=image,
        result=result,
        layers=tuple(made),
        spans=spans,
        owners=owners,
        closed=closed,
        recording=recording,
    )


def instruction_owners(image: Image) -> list[int]:
    """The layer of every instruction; BEGIN and END belong to their neighbours."""
    inner = [layer for layer, count in image.info["instruction_layers"] for _ in range(count)]
    return [inner[0], *inner, inner[-1]] if inner else [0, 0]


def written_bytes(instruction: Instruction) -> int:
    """Bytes that an instruction writes to memory."""
    if instruction.opcode is not Opcode.STORE:
        return 0
    return instruction["run"] * runs(instruction["loop"])


def runs(loops: Sequence[Mapping[str, int]]) -> int:
    """How often the body of a loop nest runs; a loop's `last` holds in the last one around it."""
    full, final = 1, 1  # in an iteration of the loop around that is not its last one, and in that
    for loop in reversed(loops):
        full, final = (
            (loop["count"] - 1) * full + final,
            (loop["last"] - 1) * full + final,
        )
    return final


def bound_by(states: Mapping[str, Mapping[str, int]], cycles: int) -> str:
    """The engine that works (busy, bank or pipeline; fetch: busy) in most of the cycles; `latency`
    if none does in more than half of them: then engines wait for memory and for each other.
    """
    if not cycles:
        return LATENCY
    names = [state.name.lower() for state in _WORK]
    work = {engine: sum(row[n] for n in names) for engine, row in states.items()}
    # A full queue counts as its pipeline: the engine behind it has the real reason.
    fetch = Engine.FETCH.name.lower()
    if fetch in work:
        work[fetch] = states[fetch][Stall.BUSY.name.lower()]
    best = max(work, key=lambda engine: work[engine])
    return best if work[best] > MIN_ACTIVITY * cycles else LATENCY


def _layer_states(
    recording: Recording, closed: NDArray[np.int64], owners: Sequence[int], layers: int
) -> NDArray[np.int64]:
    """[layer, engine, state] cycles."""
    starts = np.concatenate([[0], closed[:-1]])
    out = np.zeros((layers, len(Engine), len(Stall)), np.int64)
    for engine, track in recording.tracks.items():
        np.add.at(out[:, engine], np.array(owners), state_sums(track, starts, closed))
    return out


def _layer(
    info: Mapping[str, Any], states: NDArray[np.int64], moved: tuple[int, int]
) -> LayerProfile:
    named = {e.name.lower(): {s.name.lower(): int(states[e, s]) for s in Stall} for e in Engine}
    cycles = int(states[Engine.FETCH].sum())
    return LayerProfile(
        name=info["name"],
        ops=tuple(info["ops"]),
        module=info["module"],
        source=info["source"],
        macs=info["macs"],
        cycles=cycles,
        predicted_cycles=info["predicted_cycles"],
        layer_bound=info.get("layer_bound", 0.0),
        read_bytes=moved[0],
        write_bytes=moved[1],
        states=named,
        bound=bound_by(named, cycles),
    )
