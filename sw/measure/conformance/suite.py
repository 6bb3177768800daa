"""The tests: which there are, and their generation operator by operator with tosa-tools.

The official suite is that of `tosa_verif_conformance_generator` (TOSA 1.0.2, PRO-INT, no
extensions); random tests come from `tosa_verif_build_tests`.
"""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spec.errors import SystolaError
from spec.names import did_you_mean
from sw.compiler.tosa.table import OPERATORS

VERSION = "1.0.2"
PROFILE = "tosa-pro-int"
TEST_TYPES = ("positive", "negative")
_FILTER = ("--profile", PROFILE, "--extension", "none", "--tosa-version", VERSION)

Tests = dict[str, Path]
"""Folder of each test by its name."""


class ConformanceError(SystolaError):
    """A run that cannot be made: unknown operator, tosa-tools missing or failing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Which tests: `random` 0 is the official suite, else so many random ones per operator."""

    operators: tuple[str, ...]
    test_type: str = "positive"
    random: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        known = all_operators()
        for name in self.operators:
            if name not in known:
                raise ConformanceError(
                    f"OPS={name}: no operator of the integer profile{did_you_mean(name, known)}; "
                    f"it has {', '.join(known)}"
                )
        if self.test_type not in TEST_TYPES:
            raise ConformanceError(
                f"test type {self.test_type!r}: must be {' or '.join(TEST_TYPES)}"
            )
        if self.random < 0 or self.seed < 0:
            raise ConformanceError("RANDOM and SEED must not be negative")

    @property
    def name(self) -> str:
        """What the verdicts are filed under."""
        if self.random:
            return f"{self.test_type} random {self.random} seed {self.seed}"
        return f"{self.test_type} {VERSION}"


def all_operators() -> list[str]:
    """The suite's operators, as the generator names them."""
    return sorted([*(kind.lower() for kind in OPERATORS), "const"])


def operator_of(test: str) -> str:
    """The operator that a test's name begins with."""
    names = [name for name in all_operators() if test.startswith(name + "_")]
    return max(names, key=len, default="other")


def listed(suite: Suite, folder: Path) -> set[str]:
    """Names of all official tests of the suite's operators, without generating them."""
    file = folder / "tests.txt"
    command = [*_official(suite), "--operators", *suite.operators]
    _run([*command, "--list-tests-to-file", str(file)], folder)
    return set(file.read_text().split())


def generate(suite: Suite, operator: str, folder: Path) -> Tests:
    """Write the tests of one operator under `folder`, which must be empty."""
    if suite.random:
        return _random(suite, operator, folder)
    command = [
        *_official(suite),
        "--operators",
        operator,
        "--build-directory",
        str(folder / "build"),
    ]
    _run([*command, "--output-directory", str(folder / "tests")], folder)
    shutil.rmtree(folder / "build", ignore_errors=True)
    return _found(folder / "tests")


def _random(suite: Suite, operator: str, folder: Path) -> Tests:
    """`suite.random` tests by the suite's seed.

    One call of the generator has one shape for each rank, so there are many, with a seed each, of
    which every one gives at most a quarter of the tests; a test's name gets its seed.
    """
    rng, chosen = random.Random(f"{suite.seed} {operator}"), Tests()
    share = max(1, suite.random // 4)
    for _ in range(_MOST_CALLS * suite.random):
        seed = rng.randrange(1 << 31)
        found = _random_call(suite, operator, seed, folder / f"seed{seed}", rng)
        wanted = min(share, suite.random - len(chosen), len(found))
        for name in rng.sample(sorted(found), wanted):
            target = folder / "tests" / f"{name}_seed{seed}"
            target.parent.mkdir(exist_ok=True)
            chosen[target.name] = found[name].rename(target)
        shutil.rmtree(folder / f"seed{seed}", ignore_errors=True)
        if len(chosen) == suite.random:
            return dict(sorted(chosen.items()))
    raise ConformanceError(
        f"{operator}: the generator made {len(chosen)} random tests; lower RANDOM"
    )


def _random_call(suite: Suite, operator: str, seed: int, folder: Path, rng: random.Random) -> Tests:
    """What `tosa_verif_build_tests` makes of one seed."""
    command = [
        tool("tosa_verif_build_tests"), *_FILTER, "--filter", f"^{operator}$",
        "--test-type", suite.test_type, "--tensor-dim-range", "1,20",
        "--num-rand-permutations", "1", "--seed", str(seed), "-o", str(folder),
    ]  # fmt: skip
    if "conv" in operator:  # one kernel instead of all of the generator's
        sizes = [rng.randint(1, 5) for _ in range(3 if operator == "conv3d" else 2)]
        command += ["--conv-kernel", ",".join(map(str, sizes))]
    if operator == "rescale":  # hundreds of pairs of types and flags at every rank
        dtype = rng.choice(("int8", "int16", "int32"))
        command += ["--target-rank", str(rng.randint(1, 5)), "--target-dtype", dtype]
    folder.mkdir()
    _run(command, folder)
    return _found(folder)


_MOST_CALLS = 3
"""Calls of the generator for each random test that is wanted."""


def _official(suite: Suite) -> list[str]:
    return [tool("tosa_verif_conformance_generator"), *_FILTER, "--test-type", suite.test_type]


def _found(folder: Path) -> Tests:
    return {path.parent.name: path.parent for path in sorted(folder.rglob("desc.json"))}


def tool(name: str) -> str:
    """A console script of tosa-tools: this environment's, or PATH's."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ConformanceError(f"{name} not found; `pip install tosa-tools`")
    return found


def _run(command: Sequence[str], folder: Path) -> None:
    # The tools start each other by name.
    path = os.pathsep.join((str(Path(command[0]).parent), os.environ.get("PATH", "")))
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    if done.returncode:
        raise ConformanceError(
            f"{Path(command[0]).name} failed (exit {done.returncode}):\n"
            f"{(done.stderr + done.stdout)[-1500:]}"
        )
