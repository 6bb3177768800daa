"""`python -m sw.measure.doors`: measure the doors of other frameworks; docs/doors.md has it."""

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from spec.config import NpuConfig, preset
from spec.errors import SystolaError
from spec.names import did_you_mean
from sw.measure.doors.programs import DoorsError
from sw.measure.doors.run import Entry
from sw.results.revision import ROOT

DATA = ROOT / "docs" / "data" / "doors.json"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sw.measure.doors",
        description="The doors of other frameworks against these. Rows that the file has of the "
        "same sources are not measured again.",
    )
    parser.add_argument(
        "what", choices=list(ENTRIES),
        help="ways: a ResNet-18 through every door; rtl: the same on the RTL, minutes each; "
        "classes: top-1 of 32 photographs; layers: each layer by itself",
    )  # fmt: skip
    parser.add_argument("--only", action="append", default=[], help="rows with this in their name")
    parser.add_argument("--config", default="default", help="a preset")
    parser.add_argument("--json", type=Path, default=DATA, help="where the rows are kept")
    args = parser.parse_args(arguments)
    try:
        return _measured(args)
    except SystolaError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def _measured(args: argparse.Namespace) -> int:
    from sw.measure.doors.run import run

    config = preset(args.config)
    entries = list(ENTRIES[args.what](config))
    for text in args.only:
        if not any(text in entry.name for entry in entries):
            names = [entry.name for entry in entries]
            near = did_you_mean(text, names)
            raise DoorsError(f"--only {text}: is in no name{near}; they are {'; '.join(names)}")
    chosen = [e for e in entries if not args.only or any(text in e.name for text in args.only)]
    rows = run(chosen, config, args.json, _say)
    return 1 if any("error" in row for row in rows) else 0


def _ways(config: NpuConfig, rtl: bool = False) -> Iterator[Entry]:
    from sw.measure.doors.passages import passed
    from sw.measure.doors.ways import WAYS

    size, table = (32, "rtl") if rtl else (64, "ways")
    for way in WAYS:
        facts = {"table": table, "size": size, "way": way.name, "scales": way.scales}
        yield Entry(
            name=f"{table}: {way.name}",
            facts={**facts, "own": way.own, "network": "ResNet-18"},
            measure=partial(passed, way, config, size, rtl),
        )


def _classes(config: NpuConfig) -> Iterator[Entry]:
    from sw.measure.doors.classes import FORMS, classes
    from sw.measure.doors.files import CLASSIFIER

    for form in FORMS:
        yield Entry(
            name=f"classes: {form}",
            facts={"table": "classes", "way": form, "network": CLASSIFIER.name},
            measure=partial(classes, CLASSIFIER, form, config),
        )


def _layers(config: NpuConfig) -> Iterator[Entry]:
    from sw.measure.doors.files import NETWORKS
    from sw.measure.doors.layers import FORMS, layers

    for network in NETWORKS:
        for form in FORMS:
            yield Entry(
                name=f"layers: {network.name}, {form}",
                facts={"table": "layers", "way": form, "network": network.name},
                measure=partial(layers, network, form, config),
            )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


ENTRIES: dict[str, Callable[[NpuConfig], Iterator[Entry]]] = {
    "ways": _ways,
    "rtl": partial(_ways, rtl=True),
    "classes": _classes,
    "layers": _layers,
}


if __name__ == "__main__":
    sys.exit(main())
