"""rtl/dram.h by itself: accesses in, the cycles of their data out."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from spec.dram import Dram
from sw.runtime.simulator.control import DRAM

RTL = Path(__file__).parents[1] / "rtl"
PROGRAM = """
#include <cstdio>
#include "dram.h"
int main(int, char** argv) {
    DramTiming timing;
    FILE* file = std::fopen(argv[1], "rb");
    if (std::fread(&timing, sizeof timing, 1, file) != 1) return 1;
    Dram dram;
    dram.configure(timing, 0);
    unsigned long long cycle, address;
    char kind;
    while (std::scanf(" %c %llu %llx", &kind, &cycle, &address) == 3) {
        dram.step(cycle);
        if (kind == 'f') {
            std::printf("%d\\n", dram.full());
            continue;
        }
        std::printf("%llu\\n", static_cast<unsigned long long>(
            kind == 'r' ? dram.read(cycle, address) : dram.write(cycle, address)));
    }
}
"""


def built(folder: Path) -> Path:
    """The driver, compiled in `folder`."""
    (folder / "dram.cpp").write_text(PROGRAM)
    compiler = shutil.which("g++") or shutil.which("c++") or "c++"
    command = [compiler, "-std=c++17", "-O1", f"-I{RTL}", str(folder / "dram.cpp")]
    subprocess.run([*command, "-o", str(folder / "dram")], check=True)
    return folder / "dram"


def served(program: Path, dram: Dram, accesses: Sequence[tuple[str, int, int]]) -> list[int]:
    """The cycles in which accesses (r or w, cycle, address) have their data or answer; f: whether
    no more writes are taken in that cycle.
    """
    timing = np.array([dram.picoseconds()[name] for name in DRAM], "<u8")
    path = program.parent / "timing"
    path.write_bytes(timing.tobytes())
    text = "".join(f"{kind} {cycle} {address:x}\n" for kind, cycle, address in accesses)
    done = subprocess.run([program, path], input=text, capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]
