"""The RTL of a configuration, with the line of the generator that each signal comes from."""

from pathlib import Path

from spec.config import NpuConfig
from sw.runtime.simulator.generated import generate_rtl

TOP = "systola_npu"


def generate(config: NpuConfig, folder: Path, fpga: tuple[int, int] | None = None) -> list[Path]:
    """The Verilog files of the NPU, in a folder `rtl` in `folder`.

    fpga: of the top for an FPGA, with (bytes of memory, cycles of a bit on the serial line).
    """
    made = generate_rtl(config, folder / "rtl", source_lines=True, fpga=fpga)
    return [path for path in made if "_pkg" not in path.name]
