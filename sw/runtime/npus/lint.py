"""`python -m sw.runtime.npus.lint`: Verilator's -Wall over rtl/npus around the smallest preset."""

import sys

from spec.config import preset
from spec.errors import SystolaError
from sw.runtime.npus.build import npus_recipe
from sw.runtime.npus.system import NpuSystem
from sw.runtime.scratch import Scratch
from sw.runtime.simulator.build import Kind
from sw.runtime.simulator.generated import generate_rtl
from sw.runtime.simulator.lint import lint_recipe

SYSTEMS = ((2, 1), (1, 1), (3, 4))
"""(NPUs, bus words in a word of the memory)."""


def lint(config_name: str = "tiny") -> list[str]:
    """A line for each of `SYSTEMS`; `BuildError` with every warning if one is not clean."""
    config = preset(config_name)
    lines = []
    with Scratch("lint") as scratch:
        sources = generate_rtl(config, scratch.path, loops=True)
        for npus, words in SYSTEMS:
            system = NpuSystem(config=config, npus=npus, words=words)
            name = f"{npus} x {config.name}, memory of {words} bus words"
            count = lint_recipe(npus_recipe(system, Kind.PERF, sources), name)
            lines.append(f"{name}: {count} lines of Verilog, no warnings")
    return lines


def main() -> int:
    """Exit code: 0, or 1 after the warnings."""
    try:
        sys.stdout.write("\n".join(lint()) + "\n")
    except SystolaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
