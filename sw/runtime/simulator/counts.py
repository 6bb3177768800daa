"""Options with which a C++ compiler counts what a program executes, and then uses the counts."""

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sw.runtime.simulator.errors import BuildError

Run = Callable[[Sequence[str]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """counting, counted: options of the first and of the second compilation.

    link: what the program that counts is linked with. merge: turns what that program wrote into
    what the second compilation reads, with the given way to run a command.
    """

    counting: Sequence[str]
    link: str
    counted: Sequence[str]
    merge: Callable[[Run], None]


def counts_of(compiler: str, version: str, objects: Path) -> Counts:
    """How `compiler` does it, whose `--version` is `version`; its files lie in `objects`.

    `BuildError` if it is Clang and has no `llvm-profdata` beside it or on PATH.
    """
    if "clang" not in version:
        # What training does not reach is compiled as if there were no counts: it may yet be run.
        partial = ("-fprofile-partial-training", "-Wno-missing-profile")
        return Counts(
            counting=("-fprofile-generate", "-fprofile-update=single"),
            link="-lgcov",
            counted=("-fprofile-use", *partial),
            merge=lambda run: None,
        )
    tool, raw, merged = _profdata(compiler), objects / "counts", objects / "counts.profdata"

    def merge(run: Run) -> None:
        run([tool, "merge", "-o", str(merged), *map(str, sorted(raw.glob("*.profraw")))])

    return Counts(
        counting=(f"-fprofile-generate={raw}",),
        link=f"-fprofile-generate={raw}",
        counted=(f"-fprofile-use={merged}", "-Wno-profile-instr-unprofiled"),
        merge=merge,
    )


def _profdata(compiler: str) -> str:
    """Clang's own `llvm-profdata`: files of another version cannot be read."""
    done = subprocess.run(
        [compiler, "-print-prog-name=llvm-profdata"], capture_output=True, text=True
    )
    named = shutil.which(done.stdout.strip()) or shutil.which("llvm-profdata")
    if named is None:
        major = re.search(r"-(\d+)$", Path(compiler).name)
        package = f"llvm-{major[1]}" if major else "llvm"
        raise BuildError(
            f"{compiler}: no llvm-profdata, which SYSTOLA_PGO=1 needs; "
            f"install it (Debian, Ubuntu: apt install {package}) or use g++"
        )
    return named
