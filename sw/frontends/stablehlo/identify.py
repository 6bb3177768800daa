"""Whether a file is StableHLO: by its content."""

import re
from pathlib import Path

BYTECODE = b"ML\xefR"
"""With which every MLIR bytecode begins; the producer's name follows."""

_FIRST = re.compile(rb"\s*(?://[^\n]*\n\s*)*(?:module|func\.func|#\w+\s*=|\{-#)")
_OPERATION = re.compile(rb"\b(?:stablehlo|chlo)\.\w")
_CHUNK = 1 << 20


def is_stablehlo(path: str | Path) -> bool:
    """Whether the file is MLIR text with operations of StableHLO, or a portable artifact of it."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(64)
            if head.startswith(BYTECODE):
                return b"StableHLO" in head
            head += file.read(_CHUNK)
            if not _FIRST.match(head):
                return False
            while not _OPERATION.search(head):
                more = file.read(_CHUNK)
                if not more:
                    return False
                head = head[-32:] + more
    except OSError:
        return False
    return True
