"""What the runs of a program add up to."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from numpy.typing import NDArray

from sw.runtime.timing import Timing
from sw.torch_backend.devices import Done
from sw.torch_backend.saturation import Saturation


@dataclass(slots=True, kw_only=True)
class Figures:
    """Sums over all runs of a part. instructions, counters: by engine; bytes: of the ports.

    cached: whether the program in use comes from the cache on disk.
    """

    runs: int = 0
    on_cpu: dict[str, int] = field(default_factory=dict)
    bytes_in: int = 0
    bytes_out: int = 0
    cycles: int | None = None
    predicted_cycles: int = 0
    layer_bound: float = 0.0
    instructions: dict[str, int] = field(default_factory=dict)
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    wall_s: float = 0.0
    calibrations: int = 0
    cached: bool = False
    saturation: Saturation = field(default_factory=Saturation)
    verified: int = 0

    def add(
        self,
        inputs: Mapping[str, NDArray[Any]],
        done: Done,
        instructions: Mapping[str, int],
        timing: Timing,
    ) -> None:
        """Add one run: its inputs, what came of it; instructions, timing: of its program."""
        result = done.result
        self.runs += 1
        self.bytes_in += sum(a.nbytes for a in inputs.values())
        self.bytes_out += sum(a.nbytes for a in done.outputs.values())
        self.wall_s += result.wall_s
        self.predicted_cycles += timing.predicted_cycles or 0
        self.layer_bound += timing.layer_bound or 0.0
        if result.cycles is not None:
            self.cycles = (self.cycles or 0) + result.cycles
        for engine, count in instructions.items():
            self.instructions[engine] = self.instructions.get(engine, 0) + count
        for engine, causes in result.counters.items():
            sums = self.counters.setdefault(engine, {})
            for cause, cycles in causes.items():
                sums[cause] = sums.get(cause, 0) + cycles

    def to_json(self) -> dict[str, Any]:
        """As columns; `saturated` counts inputs, `saturated_share` is one of their values."""
        saturation = self.saturation
        flat = asdict(self)
        del flat["saturation"]
        return {
            **flat,
            "saturated": saturation.inputs,
            "saturated_values": saturation.values,
            "saturated_share": saturation.share,
        }
