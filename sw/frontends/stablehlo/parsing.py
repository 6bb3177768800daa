"""MLIR is parsed in a process of its own: what a damaged file does to the parser ends there."""

import os
import pickle
import subprocess
import sys

from sw.frontends.stablehlo.errors import StableHloError
from sw.frontends.stablehlo.reading import read
from sw.frontends.stablehlo.records import Contents

_CHILD = "from sw.frontends.stablehlo.parsing import child; child()"
_SECONDS = 300


def parse(data: bytes) -> Contents:
    """The records of a module. `StableHloError` if it cannot be parsed, however that ends."""
    path = os.pathsep.join(filter(None, [*sys.path]))
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CHILD], input=data, capture_output=True, check=False,
            timeout=_SECONDS, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise StableHloError(
            f"MLIR has not parsed it in {_SECONDS} s", hint="export the model again"
        ) from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise StableHloError(
            f"MLIR's parser ended with code {done.returncode}: {lines[-1][:200]}",
            hint="the file is damaged: export the model again",
        )
    found = pickle.loads(done.stdout)
    if isinstance(found, dict):
        raise StableHloError(**found)
    assert isinstance(found, Contents)
    return found


def child() -> None:
    """Read a module from standard input, and write its records or its error, pickled."""
    try:
        found: Contents | dict[str, str] = read(sys.stdin.buffer.read())
    except StableHloError as error:
        names = ("reason", "hint", "operation", "place")
        found = {name: getattr(error, name) for name in names}
    except Exception as error:  # what the bindings raise for what they do not know
        reason = f"it cannot be read: {type(error).__name__}: {error}"[:300]
        found = {"reason": reason, "hint": "export the model again"}
    sys.stdout.buffer.write(pickle.dumps(found, pickle.HIGHEST_PROTOCOL))
    sys.stdout.flush()
