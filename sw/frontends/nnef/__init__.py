"""The door for NNEF models: a folder or archive becomes a PyTorch module and its example inputs.

source.py    the folder, or the archive; tensors.py: its files of values; errors.py
parsing.py   the graph as records.py, by the package `nnef`
load.py      from there to an `NnefModel`
call.py      what the function of an operation is given; the operations, by family, in
operators/   one function for each: it writes nodes of ONNX (`sw/frontends/onnx/building.py`)
"""

from pathlib import Path
from typing import TYPE_CHECKING

from sw.frontends.nnef.errors import NnefError as NnefError
from sw.frontends.nnef.source import is_nnef as is_nnef

if TYPE_CHECKING:
    from sw.frontends.nnef.load import NnefModel


def load_nnef(path: str | Path) -> "NnefModel":
    """The model of a folder with `graph.nnef`, of that file, or of an archive of the folder.

    `NnefError` says what cannot be read or computed, and where.
    """
    from sw.frontends.nnef.load import load

    return load(path)
