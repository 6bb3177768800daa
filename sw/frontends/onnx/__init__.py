"""ONNX files as PyTorch modules; the package `onnx` is needed once a file is read.

model.py      `load_onnx`; module.py: the module that it makes
reading.py    files, opsets, what is refused before anything else
walk.py       a graph to steps: constants folded, operands bound; node.py: a node and its attributes
biases.py     products and what is added to them as one layer
functions.py  operators that ONNX itself defines by others
shifting.py   which uint8 values are computed with as int8
operators/    a function for each operator, a file per family; operators/table.py: all of them
node_tests.py ONNX's own tests of operators
"""

from sw.frontends.onnx.errors import OnnxError
from sw.frontends.onnx.model import OnnxModel, load_onnx
from sw.frontends.onnx.reading import is_onnx

__all__ = ["OnnxError", "OnnxModel", "is_onnx", "load_onnx"]
