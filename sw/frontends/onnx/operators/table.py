"""All operators: one table of functions by ONNX's names."""

from sw.frontends.onnx.operators.activations import ACTIVATIONS
from sw.frontends.onnx.operators.attention import ATTENTION
from sw.frontends.onnx.operators.blocks import BLOCKS
from sw.frontends.onnx.operators.elementwise import ELEMENTWISE
from sw.frontends.onnx.operators.gathers import GATHERS
from sw.frontends.onnx.operators.norms import NORMS
from sw.frontends.onnx.operators.operator import Operator
from sw.frontends.onnx.operators.pools import POOLS
from sw.frontends.onnx.operators.products import PRODUCTS
from sw.frontends.onnx.operators.quantized import QUANTIZED
from sw.frontends.onnx.operators.recurrent import RECURRENT
from sw.frontends.onnx.operators.reductions import REDUCTIONS
from sw.frontends.onnx.operators.resize import RESIZE
from sw.frontends.onnx.operators.shapes import SHAPES

FAMILIES: dict[str, dict[str, Operator]] = {
    "elementwise": ELEMENTWISE,
    "activations": ACTIVATIONS,
    "products": PRODUCTS,
    "pools": POOLS,
    "norms": NORMS,
    "reductions": REDUCTIONS,
    "shapes": SHAPES,
    "gathers": GATHERS,
    "resize": RESIZE,
    "recurrent": RECURRENT,
    "attention": ATTENTION,
    "quantized": QUANTIZED,
    "blocks": BLOCKS,
}

OPERATORS: dict[str, Operator] = {
    name: row for family in FAMILIES.values() for name, row in family.items()
}
