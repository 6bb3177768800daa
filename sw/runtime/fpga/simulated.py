"""The top for an FPGA, simulated: a program whose standard input and output are the line."""

import select
import subprocess
from pathlib import Path

from spec.config import NpuConfig
from sw.runtime.simulator.build import FAST, FAST_MAKE
from sw.runtime.simulator.cache import BuildCache, Entry
from sw.runtime.simulator.generated import RTL, generate_rtl, generator_sources
from sw.runtime.simulator.recipe import Recipe, Say, cook
from sw.runtime.simulator.verilator import digest

TOP = "systola_fpga"
DIVISOR = 4
"""Cycles of a bit: the line as fast as the hardware takes it."""
TIMEOUT_S = 120.0


class SimulatedBoard:
    """A stream to a simulated board with `bytes` of memory; a context manager that ends it."""

    def __init__(self, config: NpuConfig, bytes: int, say: Say) -> None:
        self._entry = _build(config, bytes, say)
        program = self._entry.path / "simulator"
        self._process = subprocess.Popen(
            [str(program), str(DIVISOR)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )

    def write(self, data: bytes) -> int | None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        return len(data)

    def read(self, size: int = 1) -> bytes:
        assert self._process.stdout is not None
        out = b""
        while len(out) < size:
            ready, _, _ = select.select([self._process.stdout], [], [], TIMEOUT_S)
            part = self._process.stdout.read(size - len(out)) if ready else b""
            if not part:
                break
            out += part
        return out

    def close(self) -> None:
        """End the simulation."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._entry.release()

    def __enter__(self) -> "SimulatedBoard":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _build(config: NpuConfig, bytes: int, say: Say) -> Entry:
    main = RTL / "fpga_main.cpp"

    def recipe(sources: list[Path]) -> Recipe:
        return Recipe(
            title=f"building simulator for {config.name} on an FPGA",
            top=TOP,
            verilog=sources,
            controls=[RTL / "waivers.vlt"],
            cpp=[main],
            flags=(*FAST, "--no-timing"),
            make=FAST_MAKE,
            vpi=False,
        )

    def build(folder: Path) -> None:
        sources = generate_rtl(config, folder / "rtl", fpga=(bytes, DIVISOR))
        cook(recipe(sources), folder, BuildCache(), say)

    plain = recipe([])
    parts = [config.digest_hex, str(bytes), plain.settings()]
    key = digest(parts, [main, *plain.controls, *generator_sources()])
    return BuildCache().obtain(f"fpga-{config.digest_hex}-{key}", build)
