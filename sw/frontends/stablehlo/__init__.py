"""The door for StableHLO: JAX's portable artifacts, and MLIR text of JAX and torch-mlir.

identify.py    whether a file is one; errors.py: what is wrong with it
load.py        `load`: from a file to a `StableHloModel`
parsing.py     MLIR parsed in another process; reading.py: jaxlib's objects as records.py
flatten.py     calls inlined: one list of operations, a `Graph` (graph.py)
control.py     loops unrolled, branches chosen
reducers.py    what the regions of reductions, scatters and sorts compute
fold.py        constants computed, identities left out; narrow.py: broadcasts that PyTorch does
places.py      constant places as attributes; stacks.py: arrays written piece by piece
groups/        which groups of operations are one function of PyTorch
module.py      the PyTorch module: a submodule for each operation
call.py        what a function of an operation is told; table.py: the operations, by family in
operators/     one function of tensors for each operation
"""

from pathlib import Path
from typing import TYPE_CHECKING

from sw.frontends.stablehlo.errors import StableHloError as StableHloError
from sw.frontends.stablehlo.identify import is_stablehlo as is_stablehlo

if TYPE_CHECKING:
    from sw.frontends.stablehlo.load import StableHloModel


def load_stablehlo(source: str | Path | bytes) -> "StableHloModel":
    """The module of a StableHLO file, or of the bytes of one (text or bytecode).

    `StableHloError` says what cannot be read or computed, and where.
    """
    from sw.frontends.stablehlo.load import load

    return load(source)
