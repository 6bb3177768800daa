"""Whether a file is a LiteRT model: by its content."""

from pathlib import Path

IDENTIFIER = b"TFL3"
"""Of the flatbuffer, at offset 4."""


def is_litert(path: str | Path) -> bool:
    """Whether the file has the identifier of LiteRT; False for what cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(8)[4:] == IDENTIFIER
    except OSError:
        return False
