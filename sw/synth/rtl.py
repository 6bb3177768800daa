"""The RTL of a configuration, with the line of the generator that each signal comes from."""

from pathlib import Path

from spec.config import NpuConfig
from sw.runtime.simulator.generated import generate_rtl

TOP = "systola_npu"


def generate(
    config: NpuConfig,
    folder: Path,
    *,
    for_fpga: bool = False,
    clock_enables: bool = False,
    fpga: tuple[int, int] | None = None,
) -> list[Path]:
    """The Verilog files of the NPU, in a folder `rtl` in `folder`.

    for_fpga: in the form that takes few tables of an FPGA.
    clock_enables: with enables for clock gates of pipelines that may rest.
    fpga: of the top for an FPGA, with (bytes of memory, cycles of a bit on the serial line).
    """
    made = generate_rtl(
        config,
        folder / "rtl",
        source_lines=True,
        for_fpga=for_fpga,
        clock_enables=clock_enables,
        fpga=fpga,
    )
    return [path for path in made if "_pkg" not in path.name]
