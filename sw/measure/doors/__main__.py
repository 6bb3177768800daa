"""`python -m sw.measure.doors`: measure the doors of other frameworks; docs/doors.md has it."""

import argparse
import sys
from pathlib import Path

from spec.config import preset
from spec.errors import SystolaError
from spec.names import did_you_mean
from sw.measure.doors.programs import DoorsError
from sw.results.revision import ROOT

DATA = ROOT / "docs" / "data" / "doors.json"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sw.measure.doors",
        description="A ResNet-18 of fixed weights through every door, against each framework. "
        "Rows that the file has of these sources are kept.",
    )
    parser.add_argument("--size", type=int, help="pixels of a side: 64, with --rtl 32")
    parser.add_argument("--config", default="default", help="a preset")
    parser.add_argument("--rtl", action="store_true", help="run on the RTL, minutes each")
    parser.add_argument("--only", action="append", default=[], help="a way, again for others")
    parser.add_argument("--json", type=Path, default=DATA, help="where the rows are kept")
    args = parser.parse_args(arguments)
    try:
        return _measured(args)
    except SystolaError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def _measured(args: argparse.Namespace) -> int:
    from sw.measure.doors.run import measure
    from sw.measure.doors.ways import WAYS

    known = {way.name: way for way in WAYS}
    for name in args.only:
        if name not in known:
            near = did_you_mean(name, known)
            raise DoorsError(f"--only {name}: must be one of {'; '.join(known)}{near}")
    ways = [known[name] for name in args.only] or list(WAYS)
    size = args.size or (32 if args.rtl else 64)
    rows = measure(ways, preset(args.config), size, args.rtl, args.json, _say)
    return 1 if any(row.get("error") for row in rows) else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
