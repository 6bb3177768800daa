"""What `compile`, `sim` and `verify` work on: kernels with a shape."""

from spec.config import NpuConfig
from sw.runtime import kernels
from sw.runtime.kernels import Workload
from sw.runtime.report import Report
from sw.runtime.session import DeviceOptions, run_program


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
