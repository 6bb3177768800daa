"""Softmax, norms and activations on integers, each defined as a sequence of TOSA operators.

The compiler emits exactly these operators; their largest errors against float64 are stated in each
module and tested. Only the integer profile of TOSA 1.0 is used, and INTDIV is not. One operator is
about one pass of the vector engine; RESCALE and TABLE ride behind the operator before them.
"""

from spec.sequences.base import Sequence, Step
from spec.sequences.norms import group_norm, layer_norm, rms_norm
from spec.sequences.quantize import quantize_rows
from spec.sequences.rows import reciprocal, rsqrt
from spec.sequences.softmax import attention_weights, softmax
from spec.sequences.unary import FUNCTIONS, error_bound, tabled, unary

__all__ = [
    "FUNCTIONS",
    "Sequence",
    "Step",
    "attention_weights",
    "error_bound",
    "group_norm",
    "layer_norm",
    "quantize_rows",
    "reciprocal",
    "rms_norm",
    "rsqrt",
    "softmax",
    "tabled",
    "unary",
]
