"""How delegates run: the device, and what is checked."""

from dataclasses import dataclass, fields
from typing import Any

from spec.dram import IDEAL
from spec.names import did_you_mean
from sw.runtime.session import DeviceOptions, OptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `torch.compile(backend="systola")` that are decided where a program runs.

    device: golden or rtl; latency, stall, seed: of rtl's memory. clock_mhz: the clock that the
    report turns cycles into time with. memory: ideal, or a DRAM (`spec.dram`). verify: on rtl, each
    run's integers are compared with the golden model's. check: golden looks for hazards in each
    run.
    """

    device: str = "golden"
    latency: int = 100
    stall: float = 0.0
    seed: int = 0
    clock_mhz: float | None = None
    memory: str = IDEAL
    verify: bool = True
    check: bool = False

    def __post_init__(self) -> None:
        try:
            self.device_options()
        except OptionError as error:
            raise OptionError(f"options: {str(error).removeprefix('--')}") from None

    def device_options(self) -> DeviceOptions:
        return DeviceOptions(
            device=self.device,
            latency=self.latency,
            stall=self.stall,
            seed=self.seed,
            clock_mhz=self.clock_mhz,
            memory=self.memory,
        )


def run_options(given: dict[str, Any]) -> RunOptions:
    """`RunOptions` from what a user wrote; `OptionError` for an option that does not exist."""
    names = [f.name for f in fields(RunOptions)]
    for name in given:
        if name not in names:
            raise OptionError(
                f"options: {name!r}: no such option of a .pte file{did_you_mean(name, names)}; "
                f"options are {', '.join(names)}"
            )
    return RunOptions(**given)
