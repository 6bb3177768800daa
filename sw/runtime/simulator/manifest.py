"""What an entry of the cache consists of: written when it is made, compared when it is used."""

import hashlib
import json
import os
from pathlib import Path

FILE = "manifest.json"
_MOST_HASHED = 64 << 20
"""Bytes of a file above which only its size is compared: networks are large, and read anyway."""


def write_manifest(folder: Path) -> None:
    """Describe every file under `folder`, in `folder`."""
    (folder / FILE).write_text(json.dumps(_facts(folder), indent=1))


def is_whole(folder: Path) -> bool:
    """Whether `folder` holds what its manifest says, and has one."""
    try:
        wanted = json.loads((folder / FILE).read_text())
        return bool(wanted == _facts(folder))
    except (OSError, ValueError, RecursionError):
        return False


def _facts(folder: Path) -> dict[str, list[object]]:
    """Size, whether it can be run, and digest of each file."""
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != FILE):
        size = path.stat().st_size
        digest = ""
        if size <= _MOST_HASHED:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        found[path.relative_to(folder).as_posix()] = [size, os.access(path, os.X_OK), digest]
    return found
