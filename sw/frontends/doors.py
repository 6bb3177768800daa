"""Which door a file goes through: its content says so, whatever its name is."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sw.frontends.litert import is_litert, load_litert
from sw.frontends.onnx import is_onnx, load_onnx


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A format of files.

    load: a file to an object with `module` and `example` (inputs); `shapes=` are those of inputs by
    name, where the file leaves sizes open.
    """

    name: str
    suffixes: tuple[str, ...]
    is_mine: Callable[[Path], bool]
    load: Callable[..., Any]


DOORS = (
    Door(name="ONNX", suffixes=(".onnx",), is_mine=is_onnx, load=load_onnx),
    Door(name="LiteRT", suffixes=(".tflite", ".lite"), is_mine=is_litert, load=load_litert),
)


def door_of(path: str | Path) -> Door | None:
    """The door of the file; None for other files.

    A file that has the suffix of a door and not its content is its door's all the same, which then
    says what is wrong.
    """
    path = Path(path)
    if path.is_file():
        for door in DOORS:
            if door.is_mine(path):
                return door
    return next((door for door in DOORS if path.suffix.lower() in door.suffixes), None)
