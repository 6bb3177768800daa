"""Whether a file is a program of ExecuTorch: by its content."""

from pathlib import Path


def is_executorch(path: str | Path) -> bool:
    """Whether the file begins as `.pte` files do; its name does not matter."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(8)
    except OSError:
        return False
    return head[4:6] == b"ET" and head[6:].isdigit()
