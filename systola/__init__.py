"""Systola for programs: configurations, compiling, running.

    import systola

    npu = systola.preset("default")
    program = systola.compile(module, (example,), npu)  # a float PyTorch module
    outputs = systola.run(program.image, program.inputs(batch), device="rtl")
    (logits,) = program.outputs(outputs)

Everything heavy (torch, the simulator) is imported at the first use of what needs it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from spec import PRESETS, Image, NpuConfig, SystolaError, preset
from spec.program import load_image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sw.compiler.errors import CompileError as CompileError
    from sw.compiler.frontend.compile_module import CompiledModule
    from sw.runtime.golden import GoldenDevice as GoldenDevice
    from sw.runtime.rtl import RtlDevice as RtlDevice
    from sw.torch_backend.report import CompileReport as CompileReport

_LAZY = {
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
    "load_image",
    "preset",
    "run",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'systola' has no attribute {name!r}")


def compile(
    module: Any, example_inputs: "Sequence[Any]", config: NpuConfig, **options: Any
) -> "CompiledModule":
    """Quantize and compile a PyTorch model; see `compile_module` in `sw.compiler.frontend`.

    example_inputs: float32 tensors, batch included, that also calibrate it unless `calibration` is
    given. Raises `CompileError` naming the node, its source line and a way out.
    """
    from sw.compiler.frontend.compile_module import compile_module

    return compile_module(module, example_inputs, config, **options)


def compile_report(compiled: Any = None) -> "CompileReport":
    """What became of a model given to `torch.compile(model, backend="systola")`.

    compiled: what `torch.compile` returned; None: everything that was compiled in this process. The
    report has where each operator ran and why, bytes moved and counters; see `CompileReport`.
    """
    from sw.torch_backend.entry import compile_report

    return compile_report(compiled)


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
