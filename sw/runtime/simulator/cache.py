"""A folder of what takes long to make: one entry per digest, locked, limited in size.

Generated RTL, simulators, netlists, quantized networks, compiled parts of torch.compile,
the allocator of torch.device and official tests share it.

`entries/KEY` is complete or absent: a build happens in `building/KEY` and is renamed. What is cut
off or changed later no longer matches its manifest and is built again. Whoever
uses an entry holds a shared lock on `locks/KEY`, whoever builds or evicts it an exclusive one; the
locks are the kernel's, so that a killed process leaves none behind.
"""

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO, Self

import platformdirs

from sw.runtime.simulator.errors import BuildError
from sw.runtime.simulator.manifest import FILE as MANIFEST
from sw.runtime.simulator.manifest import is_whole, write_manifest

DEFAULT_LIMIT_GB = 5.0
_UNWRITABLE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES),
    *(errno.EPERM, errno.ENOTDIR, errno.EFBIG, errno.EIO),
)

_SIMULATORS = "simulators"
_KINDS = {
    "network": "quantized networks",
    "torch": "parts of torch.compile",
    "allocator": "allocators of torch.device",
    "rtl": "generated RTL",
    "netlist": "netlists",
    "official": "official tests",
    "executorch": "libraries for ExecuTorch",
}
"""What entries are, by the beginning of their names; all others are simulators."""


class Entry:
    """A built entry in use; nobody evicts it before `release()` (or the end of the process)."""

    def __init__(self, path: Path, lock: IO[bytes]) -> None:
        self.path = path
        self._lock = lock

    def release(self) -> None:
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class BuildCache:
    """`root`: folder ($SYSTOLA_CACHE, or the user's cache folder); `limit`: bytes it may take."""

    def __init__(self, root: Path | None = None, limit: int | None = None) -> None:
        self.root = (root or cache_dir()).absolute()
        self.limit = default_limit() if limit is None else limit
        try:
            for name in ("entries", "building", "locks"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BuildError(
                f"cache folder {self.root}: {error.strerror}; "
                "set SYSTOLA_CACHE to a folder that you can write"
            ) from None

    def obtain(self, key: str, build: Callable[[Path], None]) -> Entry:
        """The entry `key`, made by `build(folder)` if it is not there.

        Processes that want the same key at one time wait for the one that builds it. An
        exception from `build` leaves no entry.
        """
        target = self.root / "entries" / key
        while True:
            lock = self._lock(key)
            try:
                self._flock(lock, fcntl.LOCK_SH)
                if not is_whole(target):
                    if target.is_dir():
                        self._discard(key, lock)
                    self._flock(lock, fcntl.LOCK_EX)
                    if not target.is_dir():
                        self._build(key, build)
                    # Taking the shared lock gives up the exclusive one for a moment, in which
                    # another process may evict the entry: look again.
                    self._flock(lock, fcntl.LOCK_SH)
                if target.is_dir():
                    with contextlib.suppress(OSError):  # only its age is lost
                        os.utime(target)
                    return Entry(target, lock)
            except BaseException:
                lock.close()
                raise
            lock.close()

    def _lock(self, key: str) -> IO[bytes]:
        try:
            return (self.root / "locks" / key).open("ab")
        except OSError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: OSError) -> BuildError:
        return BuildError(
            f"cache folder {self.root}: cannot be written ({error.strerror or error}); free some "
            "space, or set SYSTOLA_CACHE to a folder that you can write"
        )

    def _discard(self, key: str, lock: IO[bytes]) -> None:
        """Remove an entry that is not what was built: cut off, changed, of an older release."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BuildError(
                f"cache entry {self.root / 'entries' / key} is damaged and in use; end the runs "
                "that use it, or set SYSTOLA_CACHE to another folder"
            ) from None
        if not is_whole(self.root / "entries" / key):
            try:
                shutil.rmtree(self.root / "entries" / key)
            except OSError as error:
                raise self._unusable(error) from None

    def _flock(self, lock: IO[bytes], how: int) -> None:
        try:
            fcntl.flock(lock, how)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise BuildError(
                f"cache folder {self.root}: cannot lock files ({error.strerror}); "
                "set SYSTOLA_CACHE to a local disk"
            ) from None

    def _build(self, key: str, build: Callable[[Path], None]) -> None:
        folder = self.root / "building" / key
        shutil.rmtree(folder, ignore_errors=True)
        try:
            folder.mkdir()
            build(folder)
            write_manifest(folder)
            folder.rename(self.root / "entries" / key)
        except OSError as error:
            if error.errno not in _UNWRITABLE:
                raise
            raise self._unusable(error) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.evict(keep=key)

    def size(self) -> int:
        """Bytes of all entries."""
        return sum(_bytes(p) for p in (self.root / "entries").iterdir())

    def kinds(self) -> dict[str, tuple[int, int]]:
        """(entries, bytes) by what they are: simulators, networks, compiled parts."""
        found: dict[str, tuple[int, int]] = {}
        for path in (self.root / "entries").iterdir():
            kind = _KINDS.get(path.name.partition("-")[0], _SIMULATORS)
            count, size = found.get(kind, (0, 0))
            found[kind] = (count + 1, size + _bytes(path))
        return dict(sorted(found.items()))

    def evict(self, keep: str = "") -> list[str]:
        """Remove the least recently used entries until the limit holds; returns their keys.

        Entries in use and `keep` stay. Also removes what killed builds left.
        """
        entries = []
        for path in (self.root / "entries").iterdir():
            with contextlib.suppress(FileNotFoundError):
                entries.append((path.stat().st_mtime, path.name, _bytes(path)))
        total = sum(size for _, _, size in entries)
        removed = []
        for _, key, size in sorted(entries):
            if total <= self.limit:
                break
            if key != keep and self._remove(key):
                removed.append(key)
                total -= size
        for path in (self.root / "building").iterdir():
            if path.name != keep:
                self._remove(path.name, "building")
        return removed

    def _remove(self, key: str, kind: str = "entries") -> bool:
        with (self.root / "locks" / key).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            shutil.rmtree(self.root / kind / key, ignore_errors=True)
        return True


def cache_dir() -> Path:
    """$SYSTOLA_CACHE, else the platform's cache folder for this user."""
    given = os.environ.get("SYSTOLA_CACHE")
    return Path(given) if given else Path(platformdirs.user_cache_dir("systola"))


def default_limit() -> int:
    """$SYSTOLA_CACHE_GB, else 5 GB; bytes."""
    text = os.environ.get("SYSTOLA_CACHE_GB", str(DEFAULT_LIMIT_GB))
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise BuildError(f"SYSTOLA_CACHE_GB={text}: must be a number of gigabytes")
    return int(value * 1e9)


def _bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        if path.name == MANIFEST:
            continue
        with contextlib.suppress(FileNotFoundError):
            total += path.lstat().st_size
    return total
