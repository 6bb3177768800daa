"""Temporary folders that do not outlive their process for long, however it ends.

The owner of a folder holds the kernel's lock on it, which ends with the process. The first folder
that a process makes sweeps those that nobody holds any more: what SIGKILL left behind. Nothing else
is touched: a folder is swept by its name, its marker and its age only if its lock is free.
"""

import contextlib
import errno
import fcntl
import functools
import os
import shutil
import tempfile
import time
import weakref
from pathlib import Path
from typing import Self

from spec.errors import SystolaError

PREFIX = "systola-scratch-"
MARKER = ".systola-scratch"
_YOUNG_S = 60.0
"""Age under which a folder without a lock may be one whose owner is about to lock it."""


class ScratchError(SystolaError):
    """No temporary folder can be made; the message says where and what to do."""


class Scratch:
    """A temporary folder at `path`, removed by `close()`, at the end of a `with`, or at exit."""

    def __init__(self, purpose: str) -> None:
        _sweep_once()
        try:
            self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}-"))
            lock = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise no_room("temporary folder", error) from None
        self._finalizer = weakref.finalize(self, _remove, self.path, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (self.path / MARKER).touch()
        except OSError as error:
            self.close()
            raise no_room("temporary folder", error) from None

    def close(self) -> None:
        """Remove the folder. Twice does no harm."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def no_room(what: str, error: OSError, wanted: int = 0, folder: Path | None = None) -> ScratchError:
    """The message for a temporary folder that cannot be made, or does not take `wanted` bytes."""
    place = Path(folder or os.environ.get("TMPDIR") or _default())
    free = "?"
    with contextlib.suppress(OSError):
        free = f"{shutil.disk_usage(place).free:,}"
    needs = f"{wanted:,} bytes wanted, {free} free" if wanted else f"{free} bytes free"
    elsewhere = "on a larger disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "elsewhere"
    return ScratchError(
        f"{what} in {place}: {error.strerror or error}; {needs}; set TMPDIR to a folder {elsewhere}"
    )


def _default() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "/tmp"


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.close(lock)


@functools.cache
def _sweep_once() -> None:
    with contextlib.suppress(OSError):
        sweep(Path(tempfile.gettempdir()))


def sweep(root: Path) -> list[Path]:
    """Remove the folders in `root` that ended processes left; returns what is gone."""
    gone = []
    for entry in os.scandir(root):
        if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
            folder = Path(entry.path)
            with contextlib.suppress(OSError):
                if _is_stale(folder) and _taken(folder):
                    gone.append(folder)
    return gone


def _is_stale(folder: Path) -> bool:
    facts = folder.lstat()
    mine = facts.st_uid == os.getuid()
    return mine and (folder / MARKER).is_file() and time.time() - facts.st_mtime > _YOUNG_S


def _taken(folder: Path) -> bool:
    """Remove the folder unless its owner lives."""
    lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
    return not folder.exists()
