"""Where an NNEF model is: a folder, `graph.nnef` in one, or an archive. Nothing else is read."""

import re
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sw.frontends.beside import beside
from sw.frontends.nnef.errors import NnefError

GRAPH, QUANTIZATION = "graph.nnef", "graph.quant"
_TEXT = re.compile(rb"(?:\s|#[^\n]*\n)*version\s+\d")
_MOST = 1 << 33
"""Bytes of a file in an archive, which may be packed small."""
_BAD = (tarfile.TarError, zlib.error, EOFError, OSError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """graph: the text. quantization: of `graph.quant`, if there is one. read: the bytes of another
    file of the model, None where there is none.
    """

    graph: bytes
    quantization: bytes | None
    read: Callable[[str], bytes | None]


def is_nnef(path: str | Path) -> bool:
    """Whether it is an NNEF model: by its content."""
    path = Path(path)
    try:
        if path.is_dir():
            return (path / GRAPH).is_file()
        with path.open("rb") as file:
            head = file.read(4096)
        if _is_archive(head):
            with tarfile.open(path) as archive:
                return _base(archive) is not None
        return _TEXT.match(head) is not None
    except _BAD:
        return False


def _is_archive(head: bytes) -> bool:
    """Whether a file begins as gzip, or as tar."""
    return head[:2] == b"\x1f\x8b" or head[257:262] == b"ustar"


def source_of(path: Path) -> Source:
    """The model at `path`; `NnefError` where there is none."""
    try:
        if path.is_dir():
            return _folder(path, GRAPH)
        with path.open("rb") as file:
            if _is_archive(file.read(512)):
                return _archive(path)
        return _folder(path.parent, path.name)
    except _BAD as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise NnefError(
            f"cannot read: {reason}", hint=f"give a folder with {GRAPH}, or an archive of one"
        ) from None


def _folder(folder: Path, graph: str) -> Source:
    def read(name: str) -> bytes | None:
        file = beside(folder, name)
        return None if file is None else file.read_bytes()

    return Source(graph=(folder / graph).read_bytes(), quantization=read(QUANTIZATION), read=read)


def _archive(path: Path) -> Source:
    with tarfile.open(path) as archive:
        base = _base(archive)
        if base is None:
            raise ValueError(f"an archive without {GRAPH}")

    def read(name: str) -> bytes | None:
        with tarfile.open(path) as opened:
            return _member(opened, str(base / name))

    return Source(graph=read(GRAPH) or b"", quantization=read(QUANTIZATION), read=read)


def _base(archive: tarfile.TarFile) -> PurePosixPath | None:
    """The folder in the archive that has the graph: the outermost one."""
    names = [PurePosixPath(m.name) for m in archive if m.isfile()]
    found = [name.parent for name in names if name.name == GRAPH]
    return min(found, key=lambda folder: len(folder.parts), default=None)


def _member(archive: tarfile.TarFile, name: str) -> bytes | None:
    wanted = PurePosixPath(name)
    for member in archive:
        if PurePosixPath(member.name) == wanted and member.isfile():
            if member.size > _MOST:
                raise ValueError(f"{name} has {member.size:,} bytes")
            file = archive.extractfile(member)
            return None if file is None else file.read()
    return None
