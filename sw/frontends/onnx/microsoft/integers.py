"""QLinear operators and QGemm: quantize and dequantize nodes around operators on floats."""

from collections.abc import Callable

from sw.frontends.onnx.errors import refused
from sw.frontends.onnx.microsoft.writer import Writer

Rule = Callable[[Writer], None]

_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


def real(w: Writer, x: str, scale: str, zero: str, axis: int = 0) -> str:
    """The float values of an operand. axis: that a scale of several numbers goes along."""
    return w.add("DequantizeLinear", x, scale, zero, domain="", axis=axis)


def _quantized(w: Writer, y: str, scale: str, zero: str) -> None:
    """The node's result, of floats."""
    w.add("QuantizeLinear", y, scale, zero, to=w.result(), domain="")


def _two(op: str) -> Rule:
    def rule(w: Writer) -> None:
        a, sa, za, b, sb, zb, sy, zy = w.inputs(8, 7)
        _quantized(w, w.add(op, real(w, a, sa, za), real(w, b, sb, zb)), sy, zy)

    return rule


def _one(op: str, *attributes: str) -> Rule:
    def rule(w: Writer) -> None:
        x, sx, zx, sy, zy = w.inputs(5, 4)
        w.only("channels_last", 0)
        _quantized(w, w.add(op, real(w, x, sx, zx), **w.take(*attributes)), sy, zy)

    return rule


def _softmax(w: Writer) -> None:
    x, sx, zx, sy, zy = w.inputs(5, 4)
    if w.get("opset", 13) < 13:
        raise refused("a Softmax of an opset below 13", "convert the float model to opset 13")
    y = w.add("Softmax", real(w, x, sx, zx), **w.take("axis"))
    _quantized(w, y, sy, zy)


def _concat(w: Writer) -> None:
    names: list[str] = [*w.node.input]
    (sy, zy), rest = (*names, "", "")[:2], names[2:]
    if len(rest) % 3 or not rest:
        raise refused(f"{len(rest)} operands, three for each tensor", "export it again")
    parts = [real(w, rest[i], rest[i + 1], rest[i + 2]) for i in range(0, len(rest), 3)]
    _quantized(w, w.add("Concat", *parts, axis=w.get("axis")), sy, zy)


def _where(w: Writer) -> None:
    choice, a, sa, za, b, sb, zb, sy, zy = w.inputs(9, 8)
    _quantized(w, w.add("Where", choice, real(w, a, sa, za), real(w, b, sb, zb)), sy, zy)


def _gemm(w: Writer) -> None:
    a, sa, za, b, sb, zb, c, sy, zy = w.inputs(9, 5)
    transposed, alpha = w.get("transB", 0), w.get("alpha", 1.0)
    bias = ""
    if c:
        scales = w.add("Mul", w.add("Mul", sa, sb), w.hold(alpha))
        bias = real(w, c, scales, "")
    operands = real(w, a, sa, za), real(w, b, sb, zb, axis=1 - transposed), bias
    attributes = {"alpha": alpha, "transB": transposed, **w.take("transA")}
    if not sy:
        w.add("Gemm", *operands, to=w.result(), **attributes)
    else:
        _quantized(w, w.add("Gemm", *operands, **attributes), sy, zy)


def _same(op: str) -> Rule:
    """An operator that the standard has in the same form."""

    def rule(w: Writer) -> None:
        w.add(op, *w.inputs(3, 2), to=w.result(), domain="", **w.take("axis"))

    return rule


INTEGERS: dict[str, Rule] = {
    "QLinearAdd": _two("Add"),
    "QLinearMul": _two("Mul"),
    "QLinearSigmoid": _one("Sigmoid"),
    "QLinearLeakyRelu": _one("LeakyRelu", "alpha"),
    "QLinearAveragePool": _one("AveragePool", *_POOL),
    "QLinearGlobalAveragePool": _one("GlobalAveragePool"),
    "QLinearSoftmax": _softmax,
    "QLinearConcat": _concat,
    "QLinearWhere": _where,
    "QGemm": _gemm,
    "QuantizeLinear": _same("QuantizeLinear"),
    "DequantizeLinear": _same("DequantizeLinear"),
}
