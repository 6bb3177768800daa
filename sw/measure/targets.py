"""What the command line compiles, runs and verifies by name: kernels with a shape, and models."""

from pathlib import Path
from typing import TYPE_CHECKING

from spec.config import NpuConfig
from spec.errors import SystolaError
from spec.names import did_you_mean
from spec.program import Image
from sw.frontends.executorch.identify import is_executorch
from sw.models import kernels
from sw.models.kernels import Workload
from sw.models.sources import is_source, refuse_source
from sw.models.supplied import NOTHING, Supplied, refuse_shapes
from sw.runtime.report import Report
from sw.runtime.session import DeviceOptions, OptionError, run_program

if TYPE_CHECKING:
    from sw.compiler.tosa.graph import Graph

SMALL_MACS = 20_000_000
"""Networks below are part of "everything"; the others are verified where they are named."""


class TargetError(SystolaError, ValueError):
    """A name that is neither a kernel nor a model, or options that do not go with it."""


def model_names() -> list[str]:
    """The models there are."""
    from sw.models import catalog as models

    return models.model_names()


def all_targets() -> list[str]:
    """Every kernel, and the networks that the reference model runs in seconds."""
    from sw.models.catalog import MODELS

    small = [name for name, network in MODELS.items() if network.macs < SMALL_MACS]
    return [*kernels.kernel_names(), *small]


def is_model(name: str, shape: str | None) -> bool:
    """Whether `name` is a model; `TargetError` if it is nothing, or a model with a shape."""
    if name in kernels.kernel_names():
        return False
    from sw.models.catalog import is_model_name

    if is_source(name):
        refuse_source(name)
    if not is_model_name(name):
        near = did_you_mean(name, [*kernels.kernel_names(), *model_names()])
        raise TargetError(
            f"{name!r}: no such kernel or model{near}; "
            f"kernels are {', '.join(kernels.kernel_names())}; "
            f"models are {', '.join(model_names())}"
        )
    if shape is not None:
        raise TargetError(f"--shape {shape}: model {name} has its own shape; leave it out")
    return True


def refuse_supplied(kernel: str, supplied: Supplied) -> None:
    """`OptionError` for data or a policy with a kernel, which has its own."""
    if supplied.inputs or supplied.calibration:
        raise OptionError(f"--input, --calib: kernel {kernel} makes its own data from --seed")
    refuse_shapes(f"kernel {kernel}", supplied, "has its shape from --shape")
    if not supplied.precision.is_default:
        raise OptionError(f"--precision: kernel {kernel} is integers already")
    if supplied.policy != "auto":
        raise OptionError(f"--policy {supplied.policy}: kernel {kernel} is integers already")


def compile_target(
    name: str,
    config: NpuConfig,
    shape: str | None,
    seed: int,
    dump_after: tuple[str, ...],
    supplied: Supplied = NOTHING,
) -> Image:
    """The program image of a kernel or a model; stages in `dump_after` are printed."""
    from sw.compiler import compile_graph
    from sw.measure.tosa_runs import compile_tosa, is_tosa, refuse_options

    if is_tosa(name):
        refuse_options(name, shape=shape, input=supplied.inputs, calib=supplied.calibration)
        return compile_tosa(Path(name), config, dump_after=dump_after)
    if is_model(name, shape):
        from sw.models.catalog import compile_model, get_model

        return compile_model(get_model(name, supplied), config, dump_after=dump_after)
    refuse_supplied(name, supplied)
    work = build_kernel(name, shape, seed)
    info = {"shape": shape_text(work), "macs": work.macs}
    return compile_graph(work.graph, config, name=name, dump_after=dump_after, info=info)


def target_source(name: str, shape: str | None, supplied: Supplied = NOTHING) -> "Graph":
    """The TOSA graph of a kernel, a model or a TOSA file; of models for one sample."""
    from sw.measure.tosa_runs import is_tosa, refuse_options

    if is_tosa(name):
        from sw.compiler.tosa.file import load_tosa

        refuse_options(name, shape=shape, input=supplied.inputs, calib=supplied.calibration)
        return load_tosa(Path(name))
    if is_model(name, shape):
        from sw.models.catalog import get_model

        return get_model(name, supplied).imported().graph
    refuse_supplied(name, supplied)
    return build_kernel(name, shape, 0).graph


def verify_target(
    name: str,
    config: NpuConfig | None,
    shape: str | None,
    seed: int,
    limit: int,
    supplied: Supplied = NOTHING,
) -> Report:
    """Golden against the TOSA reference model; models on `limit` images.

    config: None only for a `.pte` file, which says what it was compiled for.
    """
    from sw.measure.tosa_runs import is_tosa, refuse_options, run_tosa

    if is_executorch(name):
        from sw.measure.compiled.figures import verify_file
        from sw.measure.compiled.programs import refuse_decided

        refuse_decided(name, supplied, shape=shape)
        return verify_file(Path(name), supplied.inputs, config, seed)
    assert config is not None
    golden = DeviceOptions(device="golden", seed=seed)
    if is_tosa(name):
        refuse_options(name, shape=shape, calib=supplied.calibration)
        return run_tosa(Path(name), supplied.inputs, config, golden, verify=True)
    if is_model(name, shape):
        from sw.measure.model_runs import verify_model
        from sw.models.catalog import get_model

        return verify_model(get_model(name, supplied), config, limit=limit)
    refuse_supplied(name, supplied)
    work = build_kernel(name, shape, seed)
    return run_kernel(work, config, golden, verify=True)


def build_kernel(name: str, shape: str | None, seed: int) -> Workload:
    """The workload of `name`; `KernelError` for an unknown kernel or a bad shape."""
    full = kernels.parse_shape(shape or "", name)
    return kernels.kernel(name, full, seed)


def shape_text(work: Workload) -> str:
    """The workload's shape as `--shape` takes it: MxKxN where the kernel has that form."""
    shape = work.shape
    if {"m", "k", "n"} <= set(shape) and shape.get("batch", 1) == 1:
        return f"{shape['m']}x{shape['k']}x{shape['n']}"
    return ",".join(f"{key}={value}" for key, value in shape.items())


def run_kernel(work: Workload, config: NpuConfig, options: DeviceOptions, verify: bool) -> Report:
    """Compile and run one workload; `verify`: compare with the TOSA reference model too."""
    from sw.compiler import compile_graph

    image = compile_graph(work.graph, config, name=work.name)
    graph = work.graph if verify else None
    report, _ = run_program(image, work.inputs, config, options, graph)
    report.name, report.shape, report.macs = work.name, shape_text(work), work.macs
    return report
