"""Whether a file is a program of ExecuTorch: by its content. It is no model."""

from pathlib import Path
from typing import NoReturn

from sw.frontends.executorch.errors import ExecuTorchError


def is_executorch(path: str | Path) -> bool:
    """Whether the file begins as `.pte` files do; its name does not matter."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(8)
    except (OSError, ValueError):  # ValueError: text that can be no name of a file
        return False
    return head[4:6] == b"ET" and head[6:].isdigit()


def refuse_model(path: Path) -> NoReturn:
    """`ExecuTorchError` where a model is wanted: programs have no graph that could be compiled."""
    if not is_executorch(path):
        raise ExecuTorchError(f"{path}: no such file, or no program of ExecuTorch")
    raise ExecuTorchError(
        f"{path}: holds compiled programs, not a model; `systola run`, `profile`, `verify` and "
        "`bench` take it. Other commands take the model that it was made of"
    )
