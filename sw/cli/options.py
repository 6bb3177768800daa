"""Options that several commands share: each is written here once.

An alias such as `ShapeOption` is the type of one parameter. A group is a dataclass and the type of
one parameter that stands for several options: the function gets an instance, the command line has
one option for each field. The default of the parameter is an instance with the command's own
defaults. A field that is added to a group appears in every command that takes the group.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from spec.config import NpuConfig
    from sw.models.supplied import Supplied
    from sw.runtime.session import DeviceOptions

RESULTS = str(Path("results", "systola.sqlite"))


def writable_file(param: typer.CallbackParam, path: Path | None) -> Path | None:
    """Refuse a file that cannot be written, before a long run rather than after it."""
    from sw.runtime.report import check_json

    check_json(path, param.opts[0])
    return path


ConfigOption = Annotated[str, typer.Option("--config", "-c", help="preset (systola config list)")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="change one field of it, e.g. rows=8; repeatable")
]
JsonOption = Annotated[
    Path | None,
    typer.Option("--json", help="write the report to this file", callback=writable_file),
]
ShapeOption = Annotated[
    str | None, typer.Option("--shape", help="MxKxN, or key=value,… of the kernel")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="of random inputs")]
LatencyOption = Annotated[int, typer.Option("--latency", help="memory latency in cycles")]
MemoryOption = Annotated[
    str, typer.Option("--memory", help="simulated memory: ideal, ddr4 or lpddr4, at --clock")
]
ClockOption = Annotated[
    float | None, typer.Option("--clock", help="MHz: also say milliseconds and runs a second")
]
WavesOption = Annotated[bool, typer.Option("--waves", help="debug build; record waves (VCD)")]
VerifyOption = Annotated[
    bool, typer.Option("--verify", help="compare golden with the TOSA reference model too")
]
PolicyOption = Annotated[
    str, typer.Option("--policy", help="how values become integers: auto, pt2e or wide")
]
PrecisionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--precision",
        help="layers of 16 bits: NAME=int16 or int16x16, NAME with * and ?; repeatable",
    ),
]
BudgetOption = Annotated[
    str,
    typer.Option(
        "--precision-budget",
        help="choose such layers: until a PCC (0.99), for more cycles (10%), or both (0.99,10%)",
    ),
]
DatabaseOption = Annotated[
    str, typer.Option("--db", help="database of results: a file, or postgresql://USER@HOST/NAME")
]
OnlyOption = Annotated[str, typer.Option("--only", help="runs whose title has this text")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """Which hardware: a preset with changed fields."""

    config: ConfigOption = "default"
    settings: SetOption = None

    def npu(self) -> "NpuConfig":
        """The configuration that is meant."""
        from spec.config import parse_settings, preset

        return preset(self.config).with_settings(parse_settings(self.settings or ()))

    def given(self) -> "NpuConfig | None":
        """The same where it was named; None leaves the choice to a compiled file."""
        return None if self == CONFIGURATION else self.npu()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Which device runs programs, and how its simulated memory behaves."""

    device: Annotated[str, typer.Option("--device", "-d", help="rtl or golden")]
    latency: LatencyOption = 100
    stall: Annotated[float, typer.Option("--stall", help="probability of a stall per cycle")] = 0.0
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="of random inputs and memory stalls")
    ] = 0
    clock: ClockOption = None
    memory: MemoryOption = "ideal"

    def options(self, waves: Path | None = None) -> "DeviceOptions":
        """As the devices take them; `OptionError` for a value that makes no sense."""
        from sw.runtime.session import DeviceOptions

        return DeviceOptions(
            device=self.device,
            latency=self.latency,
            stall=self.stall,
            seed=self.seed,
            waves=waves,
            clock_mhz=self.clock,
            memory=self.memory,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelData:
    """What a model is fed with, and how a user's own is quantized."""

    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            help="samples as .npy; repeat it for each argument (of a .tosa: NAME=file too)",
        ),
    ] = None
    calibration: Annotated[
        list[Path] | None,
        typer.Option("--calib", help="data to quantize your own model on, as .npy (the inputs)"),
    ] = None
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="load a .pt2 file whatever it holds; that can run code",
        ),
    ] = False
    shapes: Annotated[
        list[str] | None,
        typer.Option(
            "--input-shape",
            help="sizes that an .onnx or .tflite leaves open: NAME=1x3x320x320; repeatable",
        ),
    ] = None
    policy: PolicyOption = "auto"
    precision: PrecisionOption = None
    budget: BudgetOption = ""

    def supplied(self) -> "Supplied":
        """As the functions that take a model's name take it; `OptionError` for no policy."""
        from sw.compiler.frontend.quantization.precision import precision
        from sw.models.supplied import Supplied, input_shapes, policy_named

        return Supplied(
            inputs=tuple(self.inputs or ()),
            calibration=tuple(self.calibration or ()),
            policy=policy_named(self.policy),
            precision=precision(self.precision or (), self.budget),
            trust=self.trust,
            shapes=input_shapes(self.shapes or ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCampaign:
    """How many runs are carried out; nothing here changes what they consist of."""

    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="runs at a time (one per core)")
    ] = None
    database: DatabaseOption = RESULTS
    fresh: Annotated[bool, typer.Option("--fresh", help="run everything again")] = False
    retry: Annotated[bool, typer.Option("--retry", help="run again what did not pass")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign(LocalCampaign):
    """The same, on this machine or on the workers of a cluster."""

    scheduler: Annotated[
        str,
        typer.Option(
            "--scheduler", help="run on the workers of this Dask scheduler: tcp://host:8786"
        ),
    ] = ""


CONFIGURATION = Configuration()
ON_GOLDEN = Machine(device="golden")
ON_RTL = Machine(device="rtl")
NO_DATA = ModelData()
CAMPAIGN = Campaign()
LOCAL_CAMPAIGN = LocalCampaign()


def flatten(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with an option for each field of its groups, as typer reads them."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
            parameters += _options(kind, parameter.default)
        else:
            parameters.append(
                parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=kind)
            )

    def call(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        command(**values)

    call.__name__, call.__doc__ = command.__name__, command.__doc__
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _options(group: type, default: Any) -> list[inspect.Parameter]:
    """A parameter for each field of `group`, with its value in `default`."""
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(default, field.name),
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
