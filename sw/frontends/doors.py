"""Which door a file goes through: its content says so, whatever its name is."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sw.frontends.executorch.identify import is_executorch, refuse_model
from sw.frontends.litert import is_litert, load_litert
from sw.frontends.nnef import is_nnef, load_nnef
from sw.frontends.onnx import is_onnx, load_onnx
from sw.frontends.stablehlo import is_stablehlo, load_stablehlo


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A format of files.

    load: a file to an object with `module` and `example` (inputs). open_sizes: whether files may
    leave sizes open; `load` then takes `shapes=`, those of inputs by name.
    """

    name: str
    suffixes: tuple[str, ...]
    is_mine: Callable[[Path], bool]
    load: Callable[..., Any]
    open_sizes: bool = False


DOORS = (
    Door(
        name="ONNX",
        suffixes=(".onnx",),
        is_mine=is_onnx,
        load=load_onnx,
        open_sizes=True,
    ),
    Door(name="ExecuTorch", suffixes=(".pte",), is_mine=is_executorch, load=refuse_model),
    Door(
        name="LiteRT",
        suffixes=(".tflite", ".lite"),
        is_mine=is_litert,
        load=load_litert,
        open_sizes=True,
    ),
    Door(
        name="StableHLO",
        suffixes=(".mlir", ".mlirbc", ".stablehlo"),
        is_mine=is_stablehlo,
        load=load_stablehlo,
    ),
    Door(name="NNEF", suffixes=(".nnef", ".tgz"), is_mine=is_nnef, load=load_nnef),
)


def door_of(path: str | Path) -> Door | None:
    """The door of the file, or of the folder; None for others.

    A file that has the suffix of a door and not its content is its door's all the same, which then
    says what is wrong.
    """
    path = Path(path)
    if path.is_file() or path.is_dir():
        for door in DOORS:
            if door.is_mine(path):
                return door
    return next((door for door in DOORS if path.suffix.lower() in door.suffixes), None)
