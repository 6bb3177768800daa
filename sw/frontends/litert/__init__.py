"""The door for LiteRT files (.tflite): a file becomes a PyTorch module and its example inputs.

load.py         the way from a file to a `LiteRtModel`; identify.py: whether a file is one
schema.py       the flatbuffer's classes and names (package `tflite`)
reading.py      the flatbuffer as records.py; constants.py, sparse.py: bytes as arrays; errors.py
module.py       the PyTorch module: the operators in their order; build.py: checks, and constants
call.py         what a function of an operator is told; table.py: the operators, by family in
operators/      one function of tensors for each operator
operators_table.py  the table as text
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sw.frontends.litert.identify import is_litert as is_litert

if TYPE_CHECKING:
    from sw.frontends.litert.load import LiteRtModel


def load_litert(
    source: str | Path | bytes, *, shapes: Mapping[str, Sequence[int]] | None = None
) -> "LiteRtModel":
    """The model of a LiteRT file, or of the bytes of one. `LiteRtError` says what is wrong.

    shapes: of inputs, by name, where the file's `shape_signature` leaves sizes open; without it
    they are what the file's `shape` says, mostly 1.
    """
    from sw.frontends.litert.load import load

    return load(source, shapes=shapes)
