"""The pages of docs/tutorial as files to write, commands to run, and what these print.

```python title="my_model.py"     a file
```console                        commands after `$ `, each followed by what it prints
…                                 any lines
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "tutorial"
BLOCK = re.compile(r"```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)```\n", re.S)
ANY = "…"

MASKS = (
    (r"[━┳┏┓┡╇┩│┃└┴┘─├┼┤]+", "|"),  # widths of tables follow their figures
    (r"@[0-9a-f]{8}", "@"),
    (r"\d+(\.\d+)? s\b", "# s"),
    (r"[\d,]+ cycles/s", "# cycles/s"),
    (r"\b\d\.\d{3,}", "#"),  # correlations: sums of floats differ from machine to machine
    (r"campaign \d+", "campaign #"),
    (r"\s+", " "),
)


@dataclass
class Command:
    """A command of a page and the lines that the page shows below it."""

    text: str
    shown: list[str] = field(default_factory=list)


def pages() -> list[Path]:
    return sorted(FOLDER.glob("[0-9]*.md"))


def blocks(text: str) -> list[tuple[str, str, str]]:
    """(kind, title, content) of each fenced block."""
    return BLOCK.findall(text)


def commands(content: str) -> list[Command]:
    found: list[Command] = []
    for line in content.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:]))
        else:
            found[-1].shown.append(line)
    return found


def run(command: str, folder: Path) -> list[str]:
    """The lines that the command prints to standard output in `folder`; it must succeed."""
    tools = folder / ".bin"
    if not tools.exists():
        tools.mkdir()
        for name, call in (("python", ""), ("systola", " -m systola")):
            script = tools / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}"{call} "$@"\n')
            script.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": "0",
        "COLUMNS": "120",
        "TERM": "dumb",
    }
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stderr}"
    return [line.rstrip() for line in done.stdout.splitlines()]


def masked(line: str) -> str:
    """The line without what differs from run to run and from machine to machine."""
    for pattern, replacement in MASKS:
        line = re.sub(pattern, replacement, line)
    return line.strip()


def differences(shown: list[str], printed: list[str]) -> list[str]:
    """Lines of the page that were not printed like this; `…` stands for any lines."""
    if ANY not in shown:
        expected, got = list(map(masked, shown)), list(map(masked, printed))
        return [] if expected == got else [*shown, "but it printed:", *printed]
    at = shown.index(ANY)
    first, last = shown[:at], shown[at + 1 :]
    got = [*printed[:at], *(printed[-len(last) :] if last else [])]
    return differences([*first, *last], got)


def refreshed(command: Command, printed: list[str]) -> list[str]:
    """What the page shows from now on: as many lines before and after `…` as until now."""
    if ANY not in command.shown:
        return printed
    at = command.shown.index(ANY)
    after = len(command.shown) - at - 1
    return [*printed[:at], ANY, *(printed[-after:] if after else [])]
