"""Products of operands that are quantized at run time: the same products of floats.

DynamicQuantizeLinear gives integers and the scale that it has found in this call. Programs of the
NPU have their scales from calibration. So the product reads the floats that would have been
quantized. Its weights stay the integers that they are, with their own scales.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from sw.frontends.onnx.microsoft.integers import real
from sw.frontends.onnx.microsoft.writer import FUNCTIONS, Writer
from sw.frontends.onnx.node import reads_of

Rule = Callable[[Writer], None]

_PRODUCTS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
_READERS = {"MatMulIntegerToFloat": (2, 4), "QAttention": (3, 6)}
"""Operators that dequantize what they read: where they have its scale and its zero point."""
_FLOAT = 1


class _Graph:
    """Who makes and who reads each value."""

    def __init__(self, graph: Any) -> None:
        self.nodes = list(graph.node)
        self.makers = {name: node for node in self.nodes for name in node.output if name}
        self.readers: dict[str, list[Any]] = defaultdict(list)
        for node in self.nodes:
            for name in node.input:
                self.readers[name].append(node)
        self.wanted = {each.name for each in graph.output}

    def only_reader(self, name: str, op: str) -> Any:
        """The node that alone reads a value, if it is of that operator."""
        readers = self.readers[name]
        alone = len(readers) == 1 and name not in self.wanted
        return readers[0] if alone and readers[0].op_type == op else None

    def quantizer(self, name: str) -> Any:
        """The DynamicQuantizeLinear whose integers a value is."""
        maker: Any = self.makers.get(name)
        found = maker is not None and maker.op_type == "DynamicQuantizeLinear"
        whole = found and len(maker.output) == 3 and len(maker.input) == 1
        return maker if whole and maker.output[0] == name else None


def with_real_products(graph: Any) -> list[Any]:
    """The nodes, with a product of floats for each one that ONNX Runtime's quantizer has written:
    DynamicQuantizeLinear, the product of integers, a Cast, and a Mul by the product of two scales.
    """
    known = _Graph(graph)
    nodes = _swapped(known, [_joined(known, node) for node in known.nodes])
    products = {
        id(last): (product, last, scales)
        for product in nodes
        for last, scales in [_ends(known, product)]
        if last is not None
    }
    made: list[Any] = []
    for node in nodes:
        if id(node) not in products:
            made.append(node)
            continue
        made += _real_product(known, *products[id(node)])
    return _read(made, known.wanted)


def _real_product(known: _Graph, product: Any, last: Any, scales: Sequence[str]) -> list[Any]:
    """The product of floats whose result `last` makes now, and what dequantizes its weights."""
    from onnx import helper

    made, operands = [], []
    for at in (0, 1):
        name, zero = _input(product, at), _input(product, at + 2)
        maker = known.quantizer(name)
        if maker is not None:
            operands.append(maker.input[0])
            continue
        operands.append(f"{last.output[0]}/operand{at}")
        grid = [each for each in (name, scales[at], zero) if each]
        axis = 0 if product.op_type == "ConvInteger" else -1
        made.append(
            helper.make_node("DequantizeLinear", grid, operands[-1:], operands[-1], axis=axis)
        )
    kind = _PRODUCTS[product.op_type]
    real = helper.make_node(kind, operands, last.output, product.name, domain=FUNCTIONS)
    real.attribute.extend(product.attribute)
    return [*made, real]


def _swapped(known: _Graph, nodes: Sequence[Any]) -> list[Any]:
    """The nodes, with tables of integers dequantized before elements are taken from them."""
    from onnx import helper

    made: list[Any] = []
    for node in nodes:
        plain = node.op_type == "DequantizeLinear" and not node.attribute
        maker: Any = known.makers.get(_input(node, 0)) if plain else None
        taken = maker is not None and maker.op_type == "Gather" and len(maker.input) == 2
        if not taken or maker.input[0] in known.makers:
            made.append(node)
            continue
        table = f"{node.output[0]}/table"
        real = helper.make_node(node.op_type, [maker.input[0], *node.input[1:]], [table], table)
        taken = helper.make_node("Gather", [table, maker.input[1]], node.output, maker.name)
        taken.attribute.extend(maker.attribute)
        made += [real, taken]
    return made


def _joined(known: _Graph, node: Any) -> Any:
    """An operator that reads integers which are quantized at run time, as one that reads floats."""
    from onnx import helper

    if node.op_type not in _READERS:
        return node
    scale, zero = _READERS[node.op_type]
    maker = known.quantizer(_input(node, 0))
    if maker is None or (_input(node, scale), _input(node, zero)) != tuple(maker.output[1:]):
        return node
    given = list(node.input) + [""] * (zero + 1 - len(node.input))
    given[0], given[scale], given[zero] = maker.input[0], "", ""
    made = helper.make_node(node.op_type, given, [*node.output], name=node.name, domain=node.domain)
    made.attribute.extend(node.attribute)
    return made


def _ends(known: _Graph, product: Any) -> tuple[Any, Sequence[str]]:
    """(the Mul that ends the pattern, the scale of each operand), or None and nothing."""
    if product.op_type not in _PRODUCTS or product.domain not in ("", "ai.onnx"):
        return None, ()
    cast = known.only_reader(_output(product), "Cast")
    if cast is None or not any(a.name == "to" and a.i == _FLOAT for a in cast.attribute):
        return None, ()
    last = known.only_reader(_output(cast), "Mul")
    if last is None or not _output(last):
        return None, ()
    others = [name for name in last.input if name != _output(cast)]
    scales = _scales(known, product, known.makers.get(others[0])) if len(others) == 1 else ()
    return (last, scales) if scales else (None, ())


def _scales(known: _Graph, product: Any, both: Any) -> Sequence[str]:
    """The scale of each operand, of which `both` makes the product; nothing if it does not."""
    makers = [known.quantizer(_input(product, at)) for at in (0, 1)]
    fits = both is not None and both.op_type == "Mul" and len(both.input) == 2
    if not fits or makers == [None, None]:
        return ()
    zeros = _input(product, 2), _input(product, 3)
    for scales in (tuple(both.input), tuple(both.input)[::-1]):
        grids = zip(makers, scales, zeros, strict=True)
        if all(m is None or (scale, zero) == tuple(m.output[1:]) for m, scale, zero in grids):
            return scales
    return ()


def _input(node: Any, position: int) -> str:
    return node.input[position] if position < len(node.input) else ""


def _output(node: Any) -> str:
    """The only result; empty where there are more."""
    return node.output[0] if len(node.output) == 1 else ""


def _read(nodes: Sequence[Any], wanted: set[str]) -> list[Any]:
    """The nodes whose results somebody reads."""
    kept, read = [], set(wanted)
    for node in reversed(nodes):
        if read & set(node.output):
            kept.append(node)
            read |= reads_of(node)
    return kept[::-1]


def _quantized_matmul(w: Writer) -> None:
    a, b, scale, zero, bias = w.inputs(5, 3)
    y = w.add("MatMul", a, real(w, b, scale, zero, axis=-1), to="" if bias else w.result())
    if bias:
        w.add("Add", y, bias, to=w.result())


def _to_float(w: Writer) -> None:
    a, b, sa, sb, za, zb, bias = w.inputs(7, 2)
    left, right = real(w, a, sa, za, axis=-2) if sa else a, real(w, b, sb, zb, axis=-1)
    y = w.add("MatMul", left, right, to="" if bias else w.result())
    if bias:
        w.add("Add", y, bias, to=w.result())


DYNAMIC: dict[str, Rule] = {
    "DynamicQuantizeMatMul": _quantized_matmul,
    "MatMulIntegerToFloat": _to_float,
}
