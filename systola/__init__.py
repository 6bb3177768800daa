"""Systola for programs: configurations, compiling, running.

    import systola

    npu = systola.preset("default")
    program = systola.compile(module, (example,), npu)  # a float PyTorch module
    outputs = systola.run(program.image, program.inputs(batch), device="rtl")
    (logits,) = program.outputs(outputs)

Everything heavy (torch, the simulator) is imported at the first use of what needs it.

executorch.py  `systola.executorch`: .pte files
jax.py         `systola.jax`: functions of JAX
language.py    the names that kernels by hand are written with
onnx.py        `systola.onnx`: ONNX models in sessions of ONNX Runtime
tvm.py         `systola.tvm`: Relax modules in TVM's virtual machine
__main__.py    the command line
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from spec import PRESETS, Image, NpuConfig, SystolaError, preset
from spec.program import load_image

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sw.compiler.errors import CompileError as CompileError
    from sw.compiler.frontend.compile_module import CompiledModule
    from sw.compiler.frontend.quantization.values import Policy
    from sw.language.kernel import kernel as kernel
    from sw.runtime.golden import GoldenDevice as GoldenDevice
    from sw.runtime.npus.report import SystemResult
    from sw.runtime.rtl import RtlDevice as RtlDevice
    from sw.torch_backend.fallback import PartitionedModule
    from sw.torch_backend.report import CompileReport as CompileReport

_LAZY = {
    "kernel": "sw.language.kernel",
    "CompileError": "sw.compiler.errors",
    "CompileReport": "sw.torch_backend.report",
    "GoldenDevice": "sw.runtime.golden",
    "RtlDevice": "sw.runtime.rtl",
}

__all__ = [
    "PRESETS",
    "CompileError",
    "CompileReport",
    "GoldenDevice",
    "Image",
    "NpuConfig",
    "RtlDevice",
    "SystolaError",
    "compile",
    "compile_report",
    "kernel",
    "load_image",
    "partition",
    "preset",
    "register_torch_device",
    "run",
    "run_several",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    if name == "jax":
        import importlib

        return importlib.import_module("systola.jax")
    raise AttributeError(f"module 'systola' has no attribute {name!r}")


def compile(
    model: Any,
    example_inputs: "Sequence[Any]" = (),
    config: NpuConfig | None = None,
    **options: Any,
) -> "CompiledModule":
    """Quantize and compile a PyTorch model; see `compile_module` in `sw.compiler.frontend`.

    model: a module, an `ExportedProgram`, or a graph of PT2E. example_inputs: the arguments of a
    call, which also calibrates it unless `calibration` is given. Raises `CompileError` naming the
    node, its source line and a way out; `partition` runs such nodes on the CPU.
    """
    from sw.compiler.frontend.compile_module import compile_module

    return compile_module(model, example_inputs, config, **options)


def partition(
    model: Any,
    example_inputs: "Sequence[Any]" = (),
    config: NpuConfig | None = None,
    *,
    example_keywords: "Mapping[str, Any] | None" = None,
    calibration: "Iterable[Any] | None" = None,
    policy: "Policy" = "auto",
    device: str = "golden",
) -> "PartitionedModule":
    """A model whose operators run on the NPU where it has them, and on the CPU elsewhere.

    It is called like the model and returns what the model returns; `data` says where each operator
    runs and why. The parts are those that `torch.compile(model, backend="systola")` makes.
    """
    from sw.compiler.frontend.capture import capture
    from sw.runtime.session import DeviceOptions
    from sw.torch_backend.fallback import partition_model

    captured = capture(model, example_inputs, example_keywords)
    return partition_model(
        captured,
        config if config is not None else preset("default"),
        calibration=None if calibration is None else map(captured.flat, calibration),
        policy=policy,
        device=DeviceOptions(device=device),
    )


def compile_report(compiled: Any = None) -> "CompileReport":
    """What became of a model given to `torch.compile(model, backend="systola")`.

    compiled: what `torch.compile` returned; None: everything that was compiled in this process. The
    report has where each operator ran and why, bytes moved and counters; see `CompileReport`.
    """
    from sw.torch_backend.entry import compile_report

    return compile_report(compiled)


def register_torch_device() -> None:
    """Make `torch.device("systola")` and `torch.systola` known to PyTorch.

    PyTorch takes the device for the machine's accelerator from then on. `SystolaError` where it
    cannot be: for another version of PyTorch, or where another package has taken its place.
    """
    from sw.torch_device.register import register

    register()


def run(
    image: "Image | str | Path",
    inputs: "Mapping[str, NDArray[Any]]",
    *,
    device: str = "golden",
    latency: int = 100,
    stall: float = 0.0,
    seed: int = 0,
) -> "dict[str, NDArray[Any]]":
    """Run a program image once.

    inputs: one array per input port, of the port's shape and type. Returns the output arrays by
    name. Raises `SystolaError` for arrays that do not fit and for programs that fault. To run many
    programs keep a device open instead: `GoldenDevice(config)`, `RtlDevice(config)`.
    """
    from sw.runtime.session import DeviceOptions, check_inputs, open_device, run_image

    if not isinstance(image, Image):
        image = load_image(image)
    check_inputs(image, inputs)
    options = DeviceOptions(device=device, latency=latency, stall=stall, seed=seed)
    with open_device(image.config, options) as opened:
        return run_image(image, inputs, opened)[0]


def run_several(
    program: "CompiledModule | Image | str | Path",
    samples: "Sequence[Mapping[str, NDArray[Any]]]",
    *,
    npus: int = 2,
    partition: str = "batch",
    shared_memory: str = "narrow",
    latency: int = 100,
    stall: float = 0.0,
    seed: int = 0,
) -> "tuple[list[dict[str, NDArray[Any]]], SystemResult]":
    """Run samples on the simulated RTL of several NPUs with one memory.

    program: what `compile` returned, or an image. samples: inputs by port name, a mapping for each
    sample. partition: `batch` gives samples to the NPUs in turn; `pipeline` cuts the network into a
    stage for each NPU, for which `program` must be what `compile` returned. shared_memory: `narrow`
    moves a bus word a cycle and direction, `wide` one for each NPU. Returns the outputs of each
    sample by name, and the figures of the run: cycles, and what each NPU did and moved. Raises
    `SystolaError` as `run`.
    """
    from sw.runtime.npus.session import run_several as run_all

    graph = None
    if isinstance(program, Image):
        image = program
    elif isinstance(program, str | Path):
        image = load_image(program)
    else:
        image, graph = program.image, program.imported.graph
    return run_all(
        image,
        samples,
        graph=graph,
        npus=npus,
        partition=partition,
        shared_memory=shared_memory,
        latency=latency,
        stall=stall,
        seed=seed,
    )
