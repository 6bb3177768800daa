"""Commands that run programs: `sim` a kernel, `run` a model, `exec` an image."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sw.cli.options import (
    CONFIGURATION,
    NO_DATA,
    ON_GOLDEN,
    ON_RTL,
    Configuration,
    JsonOption,
    Machine,
    ModelData,
    SetOption,
    ShapeOption,
    VerifyOption,
    WavesOption,
)
from sw.cli.output import cold_start_times, console, finish, progress, waves_path

if TYPE_CHECKING:
    from spec.config import NpuConfig
    from sw.runtime.report import Report
    from sw.runtime.session import DeviceOptions


def sim(
    kernel: Annotated[
        str,
        typer.Argument(help="matmul, conv2d, … (an unknown name lists them), or path.py:kernel"),
    ],
    shape: ShapeOption = None,
    hardware: Configuration = CONFIGURATION,
    machine: Machine = ON_RTL,
    waves: WavesOption = False,
    verify: VerifyOption = False,
    json_file: JsonOption = None,
) -> None:
    """Run one kernel on random data and compare the RTL with the golden model."""
    from sw.measure.targets import build_kernel, run_kernel
    from sw.models.user import is_member

    npu = hardware.npu()
    title = Path(kernel).stem if is_member(kernel) else kernel
    options = machine.options(waves_path(title, npu, machine.seed) if waves else None)
    if is_member(kernel):
        finish(_run_by_hand(kernel, shape, npu, options, verify), json_file)
        return
    work = build_kernel(kernel, shape, machine.seed)
    finish(run_kernel(work, npu, options, verify), json_file)
    cold_start_times()


def _run_by_hand(
    name: str, shape: str | None, npu: "NpuConfig", options: "DeviceOptions", verify: bool
) -> "Report":
    """A kernel of a user's file (`@systola.kernel`)."""
    from sw.language.command import run_text
    from sw.language.kernel import Kernel
    from sw.models.user import UserModelError, member
    from sw.runtime.session import OptionError

    if verify:
        raise OptionError(f"--verify: {name} is no graph of TOSA, which it would be compared with")
    kernel = member(name)
    if not isinstance(kernel, Kernel):
        raise UserModelError(
            f"{name}: is a {type(kernel).__name__}; `sim` takes what @systola.kernel makes, `run` "
            "a function that returns a model"
        )
    return run_text(kernel, shape, npu, options)


def run(
    model: Annotated[
        str,
        typer.Argument(
            help="a network, FILE of quantize, path.py:function, .pt2, .onnx, .tflite, .nnef, "
            ".pte, .tosa"
        ),
    ],
    hardware: Configuration = CONFIGURATION,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", help="number of samples (digits: all, others 2)")
    ] = None,
    machine: Machine = ON_GOLDEN,
    verify: VerifyOption = False,
    data: ModelData = NO_DATA,
    fallback: Annotated[
        bool,
        typer.Option("--fallback", help="your own model: the CPU runs what the NPU cannot"),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="folder for the outputs as float .npy")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Run a network on its samples or yours; the RTL is compared with the golden model."""
    from sw.frontends.executorch.identify import is_executorch
    from sw.measure.model_runs import chosen_count, float_outputs, run_model, verify_model
    from sw.measure.tosa_runs import is_tosa, refuse_options, run_tosa
    from sw.models.catalog import get_model
    from sw.runtime.session import Arrays, open_device, save_outputs

    npu = hardware.npu()
    options = machine.options()
    if is_executorch(model):
        refused: dict[str, object] = {"limit": limit, "fallback": fallback, "verify": verify}
        _run_file(model, data, hardware.given(), options, refused, out, json_file)
        return
    if is_tosa(model):
        refuse_options(model, limit=limit, calib=data.calibration)
        finish(run_tosa(Path(model), data.inputs or (), npu, options, verify, out), json_file)
        return
    if fallback:
        _run_partitioned(model, data, npu, options, limit, out, json_file)
        return
    outputs: list[Arrays] = []
    with progress() as say:
        say(f"{model}: reading, or quantizing…")
        network = get_model(model, data.supplied())
        count = chosen_count(network, limit)
        say(f"{model}: opening {options.device} {npu.name}…")
        with open_device(npu, options) as opened:
            report = run_model(
                network,
                opened,
                limit=count,
                collected=outputs,
                say=say,
                clock_mhz=options.clock_mhz,
                memory=options.memory,
            )
        if out is not None:
            save_outputs(float_outputs(network, outputs), out)
        if verify:
            say(f"{model}: TOSA reference model…")
            report.reference = verify_model(network, npu, limit=count).reference
    finish(report, json_file)


def _run_file(
    model: str,
    data: ModelData,
    npu: "NpuConfig | None",
    options: "DeviceOptions",
    refused: dict[str, object],
    out: Path | None,
    json_file: Path | None,
) -> None:
    """A `.pte` file in ExecuTorch's runtime; the file has decided how it is quantized."""
    from sw.measure.compiled.programs import refuse_decided
    from sw.measure.compiled.run import run_file
    from sw.runtime.report import write_json

    refuse_decided(model, data.supplied(), **refused)
    found = run_file(Path(model), data.inputs or (), npu, options)
    if out is not None:
        found.save_outputs(out)
    found.print(console())
    if json_file is not None:
        write_json(found.to_json(), json_file)


def _run_partitioned(
    model: str,
    data: ModelData,
    npu: "NpuConfig",
    options: "DeviceOptions",
    limit: int | None,
    out: Path | None,
    json_file: Path | None,
) -> None:
    """A user's model on NPU and CPU."""
    from sw.measure.partitioned_run import run_partitioned, save_partitioned
    from sw.runtime.report import write_json

    found = run_partitioned(model, data.supplied(), npu, options, limit)
    if out is not None:
        save_partitioned(found, out)
    found.print(console())
    if json_file is not None:
        write_json(found.to_json(), json_file)


def execute(
    image_file: Annotated[Path, typer.Argument(metavar="IMAGE", help="program image")],
    inputs: Annotated[
        list[str] | None, typer.Option("--input", help="name=file.npy; the others are random")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="folder for outputs as .npy")] = None,
    config: Annotated[
        str | None, typer.Option("--config", "-c", help="the device's preset (the image's own)")
    ] = None,
    settings: SetOption = None,
    machine: Machine = ON_RTL,
    waves: WavesOption = False,
    json_file: JsonOption = None,
) -> None:
    """Run a program image; on the RTL, compare with the golden model."""
    from spec.program import load_image
    from sw.runtime.session import load_inputs, run_program, save_outputs

    image = load_image(image_file)
    npu = image.config
    if config is not None or settings:
        npu = Configuration(config=config or "default", settings=settings).npu()
    options = machine.options(waves_path(image_file.stem, npu, machine.seed) if waves else None)
    arrays = load_inputs(image, _input_files(inputs), machine.seed)
    report, outputs = run_program(image, arrays, npu, options)
    if out is not None:
        save_outputs(outputs, out)
    finish(report, json_file)


def _input_files(items: list[str] | None) -> dict[str, Path]:
    from sw.runtime.session import OptionError

    files = {}
    for item in items or ():
        name, equals, path = item.partition("=")
        if not (name and equals and path):
            raise OptionError(f"--input {item}: must be of the form name=file.npy")
        files[name] = Path(path)
    return files
