"""The RTL of a configuration, generated once and kept in the cache."""

import hashlib
import os
import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path

from spec.config import NpuConfig
from sw.runtime.simulator.cache import BuildCache
from sw.runtime.simulator.errors import BuildError
from sw.runtime.simulator.guarded import run_guarded

ROOT = Path(__file__).resolve().parents[3]
RTL = ROOT / "rtl"


def generator_sources() -> list[Path]:
    """Every file that generated RTL depends on."""
    python = [p for folder in ("hw_gen", "spec") for p in sorted((ROOT / folder).rglob("*.py"))]
    return [*python, *sorted(RTL.glob("*.sv"))]


def generate_rtl(
    config: NpuConfig,
    folder: Path,
    *,
    assertions: bool = False,
    source_lines: bool = False,
    loops: bool = False,
    for_fpga: bool = False,
    clock_enables: bool = False,
    fpga: tuple[int, int] | None = None,
    cache: BuildCache | None = None,
) -> list[Path]:
    """Generated Verilog of `config` in `folder`, packages first.

    assertions: with the blocks' own invariants, which only SystemVerilog tools read.
    source_lines: with the line of the generator that each signal comes from.
    loops: the systolic array as loops, which simulate fast, in place of processing elements.
    for_fpga: in the form that takes few tables of an FPGA.
    clock_enables: with enables for clock gates of pipelines that may rest.
    fpga: the top for an FPGA, with (bytes of memory, cycles of a bit on the serial line).
    cache: where the files are kept; default: the user's. Raises `BuildError`.
    """
    flags = [
        *(["--assertions"] if assertions else []),
        *(["--source-lines"] if source_lines else []),
        *(["--loops"] if loops else []),
        *(["--for-fpga"] if for_fpga else []),
        *(["--clock-enables"] if clock_enables else []),
        *(["--fpga", *map(str, fpga)] if fpga else []),
    ]
    cache = cache or BuildCache()
    key = f"rtl-{config.digest_hex}-{_digest(flags)}"
    with cache.obtain(key, lambda out: _generate(config, out / "rtl", flags)) as entry:
        made = sorted((entry.path / "rtl").iterdir())
        folder.mkdir(parents=True, exist_ok=True)
        copies = [Path(shutil.copy(path, folder)) for path in made]
    files = [p for p in copies if p.suffix in (".v", ".sv")]
    return sorted(files, key=lambda p: (not p.stem.endswith("_pkg"), p.name))


def _digest(flags: list[str]) -> str:
    parts = [*flags, metadata.version("amaranth"), platform.python_version()]
    if "--source-lines" in flags:
        parts.append(str(ROOT))  # the files that the lines are of
    found = hashlib.sha256("\n".join(parts).encode())
    for path in generator_sources():
        found.update(str(path.relative_to(ROOT)).encode() + b"\0")
        found.update(path.read_bytes())
    return found.hexdigest()[:24]


def _generate(config: NpuConfig, folder: Path, flags: list[str]) -> None:
    """In a process of its own: only a fixed hash seed, set before Python starts, gives the same
    Verilog each time.
    """
    fields = config.to_dict()
    settings = [f"--set={name}={value}" for name, value in fields.items() if name != "name"]
    command = [sys.executable, "-m", "hw_gen", "--config", "default", *settings, *flags]
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": path}
    # In our own folder: `-m` looks in the current one first.
    command += ["--out", str(folder.absolute())]
    done = run_guarded(command, cwd=ROOT, env=env)
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-25:])
        raise BuildError(f"generating the RTL of {config.name} failed:\n{tail}")
