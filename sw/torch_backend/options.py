"""Options of the backend: `torch.compile(model, backend="systola", options={...})`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

from spec import PRESETS, NpuConfig, preset
from spec.dram import IDEAL
from spec.names import did_you_mean
from sw.compiler.frontend.quantization.policy import Policy
from sw.compiler.frontend.quantization.smoothing import Rows
from sw.runtime.session import DeviceOptions, OptionError

Samples = Sequence[Any] | Callable[[], Iterable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to compile for, and how.

    config: a preset's name or an `NpuConfig`. device: golden or rtl; latency, stall, seed: of
    rtl's memory. clock_mhz: the clock that the report turns cycles into time with. memory: ideal,
    or a DRAM (`spec.dram`). calibration:
    calls (a tensor, or a tuple of the arguments) that calibrate a graph with such inputs,
    instead of its first call. policy: how values become integers (`policy.py`). rows: see
    `smoothing.Rows`. recalibrate: how often a part is calibrated again because its inputs
    outgrew the range. watch_results: results that reach the end of an int16 range do the
    same. variants: how many sets of shapes and parameters are kept of one function
    of the model. report: file that gets the report as JSON. fallback: run what the NPU cannot
    on the CPU; else that is an error. verify: compare each run's integers with the reference
    interpreter. check: golden looks for hazards in each run. cache: keep compiled parts on disk
    for the next process. progress: say on stderr what is compiled (default: on a terminal, or
    where it takes seconds).
    """

    config: NpuConfig
    device: str = "golden"
    latency: int = 100
    stall: float = 0.0
    seed: int = 0
    clock_mhz: float | None = None
    memory: str = IDEAL
    calibration: Samples = ()
    policy: Policy = "auto"
    rows: Rows = "auto"
    recalibrate: int = 4
    watch_results: bool = False
    variants: int = 32
    report: Path | None = None
    fallback: bool = True
    verify: bool = False
    check: bool = False
    cache: bool = True
    progress: bool | None = None

    def device_options(self) -> DeviceOptions:
        return DeviceOptions(
            device=self.device,
            latency=self.latency,
            stall=self.stall,
            seed=self.seed,
            clock_mhz=self.clock_mhz,
            memory=self.memory,
        )


_KINDS: Mapping[str, tuple[type, ...]] = {
    "device": (str,),
    "latency": (int,),
    "stall": (int, float),
    "seed": (int,),
    "clock_mhz": (int, float, type(None)),
    "memory": (str,),
    "policy": (str,),
    "rows": (str,),
    "recalibrate": (int,),
    "watch_results": (bool,),
    "variants": (int,),
    "report": (str, Path),
    "fallback": (bool,),
    "verify": (bool,),
    "check": (bool,),
    "cache": (bool,),
    "progress": (bool,),
}
_LEAST = {"recalibrate": 0, "variants": 1}


def parse_options(given: Mapping[str, Any] | None, mode: str | None = None) -> Options:
    """`Options` from what a user wrote; `OptionError` names what is wrong and what there is."""
    if mode not in (None, "default"):
        raise OptionError(f"mode={mode!r}: the backend systola has no modes; use options={{...}}")
    values = dict(given or {})
    names = [f.name for f in fields(Options)]
    for name in values:
        if name not in names:
            raise OptionError(
                f"options: {name!r}: no such option of the backend systola"
                f"{did_you_mean(str(name), names)}; options are {', '.join(names)}"
            )
    for name, kinds in _KINDS.items():
        if name in values:
            _check(name, values[name], kinds)
    if values.get("rows", "auto") not in get_args(Rows):
        raise OptionError(f"options: rows={values['rows']!r}: one of {', '.join(get_args(Rows))}")
    if values.get("policy", "auto") not in get_args(Policy):
        raise OptionError(
            f"options: policy={values['policy']!r}: one of {', '.join(get_args(Policy))}"
        )
    if "report" in values:
        values["report"] = Path(values["report"])
    config = values.pop("config", "default")
    options = Options(config=_config(config), **values)
    try:
        options.device_options()
    except OptionError as error:
        raise OptionError(f"options: {str(error).removeprefix('--')}") from None
    return options


def _check(name: str, value: Any, kinds: tuple[type, ...]) -> None:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(k.__name__ for k in kinds)
        raise OptionError(f"options: {name}={value!r}: must be {wanted}")
    if value < _LEAST.get(name, value) if isinstance(value, int) else False:
        raise OptionError(f"options: {name}={value}: must be {_LEAST[name]} or more")


def _config(value: Any) -> NpuConfig:
    if isinstance(value, NpuConfig):
        return value
    if value not in PRESETS:
        raise OptionError(
            f"options: config={value!r}: a preset ({', '.join(PRESETS)}) or an NpuConfig"
        )
    return preset(value)
