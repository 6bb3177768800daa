"""`python -m sw.runtime.simulator.lint --config NAME --set rows=8`: Verilator's -Wall over RTL.

Generated RTL, hand-written blocks and test bench together, under rtl/waivers.vlt.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from spec.config import NpuConfig, parse_settings, preset
from spec.errors import SystolaError
from sw.runtime.scratch import Scratch
from sw.runtime.simulator.build import Kind, npu_recipe
from sw.runtime.simulator.errors import BuildError
from sw.runtime.simulator.generated import generate_rtl
from sw.runtime.simulator.guarded import run_guarded
from sw.runtime.simulator.recipe import Recipe
from sw.runtime.simulator.verilator import find_verilator


def lint(config: NpuConfig) -> int:
    """Number of lines of Verilog that are clean; `BuildError` with every warning if any is not.

    Both forms of the array are looked at; the lines are those with processing elements.
    """
    lint_form(config, loops=True)
    return lint_form(config, loops=False)


def lint_form(config: NpuConfig, *, loops: bool) -> int:
    """`lint` of one form of the array: loops, which are simulated, or processing elements."""
    with Scratch("lint") as scratch:
        sources = generate_rtl(config, scratch.path, loops=loops)
        return lint_recipe(npu_recipe(config, Kind.PERF, sources), config.name)


def lint_recipe(recipe: Recipe, name: str) -> int:
    """Lines of Verilog of `recipe`, which are clean; `BuildError` with every warning."""
    command = [
        str(find_verilator().command),
        *("--lint-only", "-Wall", "--timing", "--timescale", "1ns/1ns"),
        *("--top-module", recipe.top),
        *(f"-G{name}={value}" for name, value in recipe.parameters.items()),
        *map(str, (*recipe.controls, *recipe.verilog)),
    ]
    env = {**os.environ, **find_verilator().env}
    done = run_guarded(command, env=env)
    if done.returncode or "%Warning" in done.stdout:
        raise BuildError(f"lint of {name} failed:\n{done.stdout}")
    return sum(len(Path(p).read_text().splitlines()) for p in recipe.verilog)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, 1 after the warnings, or 2 for a configuration that is none."""
    parser = argparse.ArgumentParser(prog="python -m sw.runtime.simulator.lint")
    parser.add_argument("--config", default="default", help="preset (default: %(default)s)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="change one field of it"
    )
    options = parser.parse_args(argv)
    try:
        config = preset(options.config).with_settings(parse_settings(options.set))
    except SystolaError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    try:
        lines = lint(config)
    except SystolaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{config.name}: {lines} lines of Verilog, no warnings\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
