"""`python -m hw_gen --config NAME --out DIR [--set rows=8]…`: writes the RTL and its headers."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from spec.config import PRESETS, parse_settings, preset
from spec.errors import SystolaError


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, or 2 after a message about bad input."""
    parser = argparse.ArgumentParser(prog="python -m hw_gen", description=__doc__)
    parser.add_argument(
        "--config", default="default", help=f"preset: {', '.join(PRESETS)} (default: %(default)s)"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--out", type=Path, help="folder (default: rtl/gen/CONFIG, plus settings)")
    parser.add_argument(
        "--assertions", action="store_true", help="check internal invariants (SystemVerilog)"
    )
    parser.add_argument(
        "--source-lines", action="store_true", help="write the generator's lines as attribute src"
    )
    parser.add_argument(
        "--loops", action="store_true", help="the array as loops, which simulate fast"
    )
    parser.add_argument(
        "--for-fpga", action="store_true", help="the form that takes few tables of an FPGA"
    )
    parser.add_argument(
        "--clock-enables", action="store_true", help="enables for clock gates of idle pipelines"
    )
    parser.add_argument(
        "--fpga",
        nargs=2,
        type=int,
        metavar=("BYTES", "DIVISOR"),
        help="the top for an FPGA: bytes of its memory, clock cycles of a bit on its serial line",
    )
    options = parser.parse_args(argv)
    try:
        config = preset(options.config).with_settings(parse_settings(options.set))
        from hw_gen.fpga.top import Board
        from hw_gen.generate import generate

        fpga = options.fpga
        began = time.monotonic()
        out = options.out or Path("rtl", "gen", config.name)
        paths = generate(
            config,
            out,
            assertions=options.assertions,
            source_lines=options.source_lines,
            loops=options.loops,
            for_fpga=options.for_fpga,
            clock_enables=options.clock_enables,
            board=Board(bytes=fpga[0], divisor=fpga[1]) if fpga else None,
        )
    except (SystolaError, OSError) as error:
        print(f"hw_gen: {error}", file=sys.stderr)  # noqa: T201 (this is the command line)
        return 2
    lines = [f"config {config.name} (digest {config.digest_hex}), {time.monotonic() - began:.1f} s"]
    lines += [f"  {path}  {path.stat().st_size:,} bytes" for path in paths]
    print("\n".join(lines))  # noqa: T201
    return 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Amaranth iterates over sets: only a fixed hash seed gives the same bytes each time.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "hw_gen", *sys.argv[1:]])
    sys.exit(main())
