"""ONNX files as PyTorch modules; the package `onnx` is needed once a file is read.

identify.py   whether a file is one
model.py      `load_onnx`; module.py: the module that it makes
reading.py    files, opsets, what is refused before anything else
weights.py    large tensors: out of the message, mapped from files beside the model
walk.py       a graph to steps: constants folded, operands bound; node.py: a node and its attributes
biases.py     products and what is added to them as one layer
functions.py  operators that ONNX itself defines by others
shifting.py   which uint8 values are computed with as int8
microsoft/    ONNX Runtime's own operators, written down as standard ones
operators/    a function for each operator, a file per family; operators/table.py: all of them
node_tests.py ONNX's own tests of operators
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sw.frontends.onnx.errors import OnnxError as OnnxError
from sw.frontends.onnx.identify import is_onnx as is_onnx

if TYPE_CHECKING:
    from sw.frontends.onnx.model import OnnxModel


def load_onnx(
    source: Any,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> "OnnxModel":
    """The module of an ONNX file, or of a ModelProto.

    shapes: of inputs, by name; sizes that the model leaves open are 1 without it. constants: values
    of inputs (arrays, numbers) that the module then has no longer. `OnnxError` says what cannot be
    read or computed, and where.
    """
    from sw.frontends.onnx.model import load

    return load(source, shapes=shapes, constants=constants)
