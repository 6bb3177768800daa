"""What ONNX Runtime's optimizer fuses: products with activations, GELUs, norms with sums."""

from collections.abc import Callable
from typing import Any

from sw.frontends.onnx.errors import refused
from sw.frontends.onnx.microsoft.writer import Writer

Rule = Callable[[Writer], None]

_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_PARAMETERS = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Elu": ("alpha",)}
_TRANSPOSED = "...ij->...ji"
_PLAIN = ("Relu", "Tanh", "Sigmoid")


def activated(w: Writer, x: str, kind: str, parameters: list[float]) -> None:
    """Write down an activation that makes the node's result."""
    names = _PARAMETERS.get(kind, ())
    if kind == "Clip" and len(parameters) == 2:
        w.add("Clip", x, *map(w.hold, parameters), to=w.result())
    elif kind in (*_PLAIN, *_PARAMETERS) and len(parameters) <= len(names):
        given: dict[str, Any] = dict(zip(names, parameters, strict=False))
        w.add(kind, x, to=w.result(), **given)
    else:
        raise refused(f"activation {kind!r} with {len(parameters)} parameters")


def _conv(w: Writer) -> None:
    x, weight, bias, added = w.inputs(4, 2)
    kind, parameters = w.get("activation", ""), w.get("activation_params", [])
    last = w.result() if not (added or kind) else ""
    y = w.add("Conv", x, weight, bias, to=last, **w.take(*_CONV))
    if added:
        y = w.add("Add", y, added, to="" if kind else w.result())
    if kind:
        activated(w, y, kind, parameters)


def _gemm(w: Writer) -> None:
    a, b, c = w.inputs(3, 2)
    kind, names = w.get("activation", ""), ("alpha", "beta", "gamma")
    given = [w.get(f"activation_{name}") for name in names]
    parameters = [value for value in given if value is not None]
    attributes = w.take("alpha", "beta", "transA", "transB")
    y = w.add("Gemm", a, b, c, to="" if kind else w.result(), **attributes)
    if kind:
        activated(w, y, kind, parameters[: len(_PARAMETERS.get(kind, ()))])


def _matmul(w: Writer) -> None:
    a, b = w.inputs(2, 2)
    w.only("transBatchA", 0)
    w.only("transBatchB", 0)
    alpha = w.get("alpha", 1.0)
    if w.get("transA", 0):
        a = w.add("Einsum", a, equation=_TRANSPOSED)
    if w.get("transB", 0):
        b = w.add("Einsum", b, equation=_TRANSPOSED)
    y = w.add("MatMul", a, b, to=w.result() if alpha == 1 else "")
    if alpha != 1:
        w.add("Mul", y, w.hold(alpha), to=w.result())


def _few_bits(w: Writer) -> None:
    a, packed, scales, zeros, order, bias = w.inputs(6, 3)
    if order:
        raise refused("columns in another order (g_idx)", "quantize without act-order")
    w.get("accuracy_level")
    attributes = w.take("K", "N", "bits", "block_size")
    weight = w.add("BlockWeights", packed, scales, zeros, **attributes)
    y = w.add("MatMul", a, weight, to="" if bias else w.result())
    if bias:
        w.add("Add", y, bias, to=w.result())


def _gelu(approximate: str, *, bias: bool) -> Rule:
    def rule(w: Writer) -> None:
        x, added = w.inputs(2, 1) if bias else (*w.inputs(1, 1), "")
        y = w.add("Add", x, added) if added else x
        w.add("Gelu", y, to=w.result(), approximate=approximate)

    return rule


def _quick_gelu(w: Writer) -> None:
    (x,) = w.inputs(1, 1)
    alpha = w.hold(w.get("alpha", 1.702))
    w.add("Mul", x, w.add("Sigmoid", w.add("Mul", x, alpha)), to=w.result())


def _layer_norm(w: Writer) -> None:
    x, skip, gamma, beta, bias = w.inputs(5, 3)
    w.unwanted(1, 2)
    total = _total(w, x, skip, bias)
    epsilon = w.get("epsilon", 1e-12)
    w.add("LayerNormalization", total, gamma, beta, to=w.result(), epsilon=epsilon)


def _rms_norm(w: Writer) -> None:
    x, skip, gamma, bias = w.inputs(4, 3)
    w.unwanted(1, 2)
    total = _total(w, x, skip, bias)
    w.add("RMSNormalization", total, gamma, to=w.result(), epsilon=w.get("epsilon", 1e-12))


def _total(w: Writer, x: str, skip: str, bias: str) -> str:
    """The sum, under the name of the fourth result where it is wanted."""
    y = w.add("Add", x, skip, to="" if bias else w.result(3))
    return w.add("Add", y, bias, to=w.result(3)) if bias else y


def _simplified(w: Writer) -> None:
    x, gamma = w.inputs(2, 2)
    w.unwanted(1)
    attributes: dict[str, Any] = w.take("axis", "epsilon", "stash_type")
    w.add("RMSNormalization", x, gamma, to=w.result(), **attributes)


FUSED: dict[str, Rule] = {
    "FusedConv": _conv,
    "FusedGemm": _gemm,
    "FusedMatMul": _matmul,
    "MatMulNBits": _few_bits,
    "Gelu": _gelu("none", bias=False),
    "BiasGelu": _gelu("none", bias=True),
    "FastGelu": _gelu("tanh", bias=True),
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _layer_norm,
    "SkipSimplifiedLayerNormalization": _rms_norm,
    "SimplifiedLayerNormalization": _simplified,
}
