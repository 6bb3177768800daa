"""What commands print: reports, tables, progress."""

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from spec.config import NpuConfig
    from sw.runtime.progress import Say
    from sw.runtime.report import Report


def console(width: int = 120) -> "Console":
    """Standard output, as wide as the terminal or COLUMNS say; without either, `width` columns."""
    from rich.console import Console

    known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return Console(highlight=False, width=None if known else width)


def finish(report: "Report", json_file: Path | None) -> None:
    """Print, write the JSON, and leave with 1 if a comparison failed."""
    from sw.runtime.report import write_json

    report.print(console())
    if json_file is not None:
        write_json(report.to_json(), json_file)
    if report.failed:
        raise typer.Exit(1)


def waves_path(name: str, config: "NpuConfig", seed: int) -> Path:
    """Where waves of a run go: build/waves/ under the working directory."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{name}-{config.name}-seed{seed}")
    path = Path("build", "waves", f"{plain}.vcd").resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def progress() -> "Iterator[Say]":
    """What long commands tell: a text that ends in … begins a step, another one is a result.

    A terminal shows the step under way and its time; elsewhere a step that takes seconds is a line
    on stderr. Results are lines on stdout.
    """
    with _terminal_steps() if sys.stderr.isatty() else _plain_steps() as begin:

        def say(text: str) -> None:
            if text.endswith("…"):
                begin(text)
            else:
                typer.echo(text)

        yield say


@contextmanager
def _plain_steps() -> "Iterator[Say]":
    from sw.runtime.progress import Steps

    steps = Steps()
    try:
        yield steps.begin
    finally:
        steps.end()


@contextmanager
def _terminal_steps() -> "Iterator[Say]":
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, visible=False)
        yield lambda text: bar.reset(task, description=text, visible=True)


def cold_start_times() -> None:
    """After the first result on a fresh clone: how long it took from nothing."""
    note = Path(sys.prefix, "systola-cold-start.json")
    try:
        times = json.loads(note.read_text())
        note.unlink()
    except (OSError, ValueError):
        return
    total = time.time() - times["began"]
    typer.echo(
        f"from nothing to this result: {total - times['download_s']:.0f} s without the downloads "
        f"({times['download_s']:.0f} s), of which set-up {times['setup_s']:.0f} s"
    )
