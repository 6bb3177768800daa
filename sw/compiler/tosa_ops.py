"""The operator table of the graph IR: operand names, attributes, and shape inference.

Section references are to the TOSA 1.0 specification. Only rules that a compiler relies on are
checked: ranks, types, exact output sizes, zero-point and attribute ranges.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sw.compiler.errors import GraphError
from sw.compiler.tosa import DTYPES, Graph, Op, Tensor

Shape = tuple[int, ...]
Infer = Callable[["Checker", str], tuple[Shape, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSpec:
    """Operand names, attribute defaults (`None`: must be given), and the inference function."""

    operands: tuple[str, ...]
    infer: Infer
    attributes: Mapping[str, Any] = field(default_factory=dict)


class Checker:
    """One operator being checked: access to its operands and errors that name it."""

    def __init__(self, graph: Graph, op: Op, spec: OperatorSpec) -> None:
        self.graph, self.op = graph, op
        if len(op.inputs) != len(spec.operands):
            raise self.error(
                f"{op.kind} has {len(op.inputs)} operands, needs {len(spec.operands)}: "
                f"{', '.join(spec.operands)}"
            )
        self.operands: dict[str, Tensor] = {}
        for operand, name in zip(spec.operands, op.inputs, strict=True):
            if name not in graph.tensors:
                raise self.error(f"operand {operand}: no tensor {name!r} in the graph")
            self.operands[operand] = graph.tensors[name]

    def __getitem__(self, operand: str) -> Tensor:
        return self.operands[operand]

    def error(self, message: str, hint: str = "") -> GraphError:
        return GraphError(message, node=self.op.name, source=self.op.source, hint=hint)

    def require(self, condition: bool, message: str, hint: str = "") -> None:
        if not condition:
            raise self.error(message, hint)

    def rank(self, operand: str, *ranks: int) -> Shape:
        shape = self[operand].shape
        wanted = " or ".join(map(str, ranks))
        self.require(len(shape) in ranks, f"{operand} {list(shape)} must have rank {wanted}")
        return shape

    def dtype(self, operand: str, *dtypes: str) -> str:
        got = self[operand].dtype
        self.require(got in dtypes, f"{operand} is {got}, must be {' or '.join(dtypes)}")
        return got

    def constant(self, operand: str) -> Any:
        data = self[operand].data
        if data is None:
            raise self.error(f"{operand} must be a constant")
        return data

    def zero_point(self, operand: str, of: str, *, unsigned: bool = False) -> None:
        """A one-element constant of the dtype of `of`; zero unless that is int8 (or unsigned)."""
        shape = self[operand].shape
        self.require(self[operand].size == 1, f"{operand} {list(shape)} must have one element")
        zp = int(self.constant(operand).reshape(-1)[0])
        if of == "int32" or (of == "int16" and not unsigned):
            self.require(zp == 0, f"{operand}={zp}: must be 0 for {of}")

    def ints(self, attribute: str, length: int, low: int) -> tuple[int, ...]:
        value = self.op.attributes[attribute]
        good = isinstance(value, tuple | list) and len(value) == length
        self.require(
            good and all(isinstance(v, int) and v >= low for v in value),
            f"{attribute}={value!r}: must be {length} integers of at least {low}",
        )
        return tuple(value)


def _window(c: Checker, axis: str, size: int, pads: int, reach: int, stride: int) -> int:
    steps, rest = divmod(size - 1 + pads - reach, stride)
    c.require(
        rest == 0 and steps >= 0,
        f"{axis}: {size} - 1 + padding {pads} - {reach} must be a multiple >= 0 of {stride}",
        "TOSA wants exact sizes: lower the padding at the end, or SLICE the input",
    )
    return steps + 1


def _conv2d(c: Checker, _: str) -> tuple[Shape, str]:
    ic = c.rank("input", 4)[3]
    oc, kh, kw, wc = c.rank("weight", 4)
    c.require(wc == ic, f"weight {list(c['weight'].shape)} has {wc} input channels, input has {ic}")
    return _convolution(c, (kh, kw), oc)


def _depthwise_conv2d(c: Checker, _: str) -> tuple[Shape, str]:
    ic = c.rank("input", 4)[3]
    kh, kw, wc, multiplier = c.rank("weight", 4)
    c.require(wc == ic, f"weight {list(c['weight'].shape)} has {wc} input channels, input has {ic}")
    return _convolution(c, (kh, kw), ic * multiplier)


def _convolution(c: Checker, kernel: tuple[int, int], oc: int) -> tuple[Shape, str]:
    """What CONV2D and DEPTHWISE_CONV2D share."""
    n, h, w, _ = c["input"].shape
    kh, kw = kernel
    c.dtype("input", "int8")
    c.dtype("weight", "int8")
    c.dtype("bias", "int32")
    bias = c.rank("bias", 1)
    c.require(bias in ((oc,), (1,)), f"bias {list(bias)} must be [{oc}] or [1]")
    c.zero_point("input_zp", "int8")
    c.zero_point("weight_zp", "int8")
    acc = c.op.attributes["acc_type"]
    c.require(acc == "int32", f"acc_type={acc}: must be int32 for int8 operands")
    top, bottom, left, right = c.ints("pad", 4, 0)
    sy, sx = c.ints("stride", 2, 1)
    dy, dx = c.ints("dilation", 2, 1)
    oh = _window(c, "height", h, top + bottom, (kh - 1) * dy, sy)
    ow = _window(c, "width", w, left + right, (kw - 1) * dx, sx)
    return (n, oh, ow, oc), "int32"


def _matmul(c: Checker, _: str) -> tuple[Shape, str]:
    n, h, k = c.rank("A", 3)
    bn, bk, w = c.rank("B", 3)
    c.dtype("A", "int8")
    c.dtype("B", "int8")
    c.require((bn, bk) == (n, k), f"B {[bn, bk, w]} does not fit A {[n, h, k]}: wants [{n},{k},…]")
    c.zero_point("A_zp", "int8")
    c.zero_point("B_zp", "int8")
    return (n, h, w), "int32"


def _pool(c: Checker) -> Shape:
    n, h, w, ch = c.rank("input", 4)
    kh, kw = c.ints("kernel", 2, 1)
    sy, sx = c.ints("stride", 2, 1)
    pad = c.ints("pad", 4, 0)
    c.require(
        max(pad[:2]) < kh and max(pad[2:]) < kw, f"pad={pad}: must be below kernel {(kh, kw)}"
    )
    oh = _window(c, "height", h, pad[0] + pad[1], kh - 1, sy)
    ow = _window(c, "width", w, pad[2] + pad[3], kw - 1, sx)
    return (n, oh, ow, ch)


def _max_pool2d(c: Checker, _: str) -> tuple[Shape, str]:
    return _pool(c), c.dtype("input", "int8", "int16")


def _avg_pool2d(c: Checker, _: str) -> tuple[Shape, str]:
    dtype = c.dtype("input", "int8", "int16")
    c.zero_point("input_zp", dtype)
    c.zero_point("output_zp", dtype)
    acc = c.op.attributes["acc_type"]
    c.require(acc == "int32", f"acc_type={acc}: must be int32")
    return _pool(c), dtype


def broadcast(c: Checker) -> Shape:
    """The shape of a binary elementwise operator: equal ranks, dimensions equal or 1."""
    a, b = c["input1"].shape, c["input2"].shape
    good = len(a) == len(b) and all(x == y or 1 in (x, y) for x, y in zip(a, b, strict=False))
    c.require(good, f"input1 {list(a)} and input2 {list(b)} do not broadcast")
    return tuple(max(x, y) if 0 not in (x, y) else 0 for x, y in zip(a, b, strict=True))


def _binary32(c: Checker, _: str) -> tuple[Shape, str]:
    c.dtype("input1", "int32")
    c.dtype("input2", "int32")
    return broadcast(c), "int32"


def _rescale(c: Checker, out: str) -> tuple[Shape, str]:
    a = c.op.attributes
    source = c.dtype("input", "int8", "int16", "int32")
    shape = c["input"].shape
    c.require(
        out in ("int8", "int16", "int32"), f"output dtype {out!r}: must be int8, int16 or int32"
    )
    lanes = shape[-1] if a["per_channel"] else 1
    for operand in ("multiplier", "shift"):
        got = c[operand].shape
        c.require(
            got == (lanes,),
            f"{operand} {list(got)} must be [{lanes}] (per_channel={a['per_channel']})",
        )
    c.dtype("multiplier", "int32" if a["scale32"] else "int16")
    c.dtype("shift", "int8")
    multiplier, shift = c.constant("multiplier"), c.constant("shift")
    c.require(bool((multiplier >= 0).all()), "multiplier must not be negative")
    c.require(
        bool(((shift >= 2) & (shift <= 62)).all()),
        f"shift {shift.min()}…{shift.max()}: must lie in 2…62",
    )
    mode = a["rounding_mode"]
    c.require(
        mode == "SINGLE_ROUND", f"rounding_mode={mode}: only SINGLE_ROUND is in the integer profile"
    )
    c.zero_point("input_zp", source, unsigned=a["input_unsigned"])
    c.zero_point("output_zp", out, unsigned=a["output_unsigned"])
    return shape, out


def _clamp(c: Checker, _: str) -> tuple[Shape, str]:
    dtype = c.dtype("input", "int8", "int16")
    low, high = c.op.attributes["min_val"], c.op.attributes["max_val"]
    c.require(low <= high, f"min_val={low} is above max_val={high}")
    return c["input"].shape, dtype


def _table(c: Checker, _: str) -> tuple[Shape, str]:
    c.dtype("input1", "int8")
    c.dtype("table", "int8")
    shape = c["table"].shape
    c.require(shape == (256,), f"table {list(shape)} must be [256] for int8")
    return c["input1"].shape, "int8"


def _reshape(c: Checker, _: str) -> tuple[Shape, str]:
    shape = tuple(int(v) for v in c.constant("shape"))
    size = 1
    for v in shape:
        size *= v
    old = list(c["input1"].shape)
    c.require(
        size == c["input1"].size, f"shape {list(shape)} has {size} elements, input {old} differs"
    )
    return shape, c["input1"].dtype


def _transpose(c: Checker, _: str) -> tuple[Shape, str]:
    shape, perms = c["input1"].shape, tuple(c.op.attributes["perms"])
    c.require(sorted(perms) == list(range(len(shape))), f"perms={perms}: no permutation of {shape}")
    return tuple(shape[p] for p in perms), c["input1"].dtype


def _pad(c: Checker, _: str) -> tuple[Shape, str]:
    shape = c["input1"].shape
    pads = [int(v) for v in c.constant("padding")]
    c.require(len(pads) == 2 * len(shape), f"padding {pads} must have {2 * len(shape)} entries")
    c.require(min(pads) >= 0, f"padding {pads} must not be negative")
    c.dtype("pad_const", c["input1"].dtype)
    c.require(c["pad_const"].size == 1, "pad_const must have one element")
    return (
        tuple(s + pads[2 * i] + pads[2 * i + 1] for i, s in enumerate(shape)),
        c["input1"].dtype,
    )


def _slice(c: Checker, _: str) -> tuple[Shape, str]:
    shape = c["input1"].shape
    start = [int(v) for v in c.constant("start")]
    size = [int(v) for v in c.constant("size")]
    good = len(start) == len(size) == len(shape) and all(
        a >= 0 and n >= 1 and a + n <= s for a, n, s in zip(start, size, shape, strict=False)
    )
    c.require(good, f"start {start}, size {size} is no part of {list(shape)}")
    return tuple(size), c["input1"].dtype


def _same(c: Checker, _: str) -> tuple[Shape, str]:
    return c["input1"].shape, c["input1"].dtype


_CONV = {"pad": (0, 0, 0, 0), "stride": (1, 1), "dilation": (1, 1), "acc_type": "int32"}
_POOL = {"kernel": None, "stride": None, "pad": (0, 0, 0, 0)}
_RESCALE = {
    "scale32": True,
    "rounding_mode": "SINGLE_ROUND",
    "per_channel": False,
    "input_unsigned": False,
    "output_unsigned": False,
}

OPERATORS: dict[str, OperatorSpec] = {
    "CONV2D": OperatorSpec(
        operands=("input", "weight", "bias", "input_zp", "weight_zp"),
        attributes=_CONV,
        infer=_conv2d,
    ),
    "DEPTHWISE_CONV2D": OperatorSpec(
        operands=("input", "weight", "bias", "input_zp", "weight_zp"),
        attributes=_CONV,
        infer=_depthwise_conv2d,
    ),
    "MATMUL": OperatorSpec(operands=("A", "B", "A_zp", "B_zp"), infer=_matmul),
    "MAX_POOL2D": OperatorSpec(operands=("input",), attributes=_POOL, infer=_max_pool2d),
    "AVG_POOL2D": OperatorSpec(
        operands=("input", "input_zp", "output_zp"),
        attributes={**_POOL, "acc_type": "int32"},
        infer=_avg_pool2d,
    ),
    "ADD": OperatorSpec(operands=("input1", "input2"), infer=_binary32),
    "SUB": OperatorSpec(operands=("input1", "input2"), infer=_binary32),
    "MAXIMUM": OperatorSpec(operands=("input1", "input2"), infer=_binary32),
    "MINIMUM": OperatorSpec(operands=("input1", "input2"), infer=_binary32),
    "RESCALE": OperatorSpec(
        operands=("input", "multiplier", "shift", "input_zp", "output_zp"),
        attributes=_RESCALE,
        infer=_rescale,
    ),
    "CLAMP": OperatorSpec(
        operands=("input",), attributes={"min_val": None, "max_val": None}, infer=_clamp
    ),
    "TABLE": OperatorSpec(operands=("input1", "table"), infer=_table),
    "RESHAPE": OperatorSpec(operands=("input1", "shape"), infer=_reshape),
    "TRANSPOSE": OperatorSpec(operands=("input1",), attributes={"perms": None}, infer=_transpose),
    "PAD": OperatorSpec(operands=("input1", "padding", "pad_const"), infer=_pad),
    "SLICE": OperatorSpec(operands=("input1", "start", "size"), infer=_slice),
    "IDENTITY": OperatorSpec(operands=("input1",), infer=_same),
}


def operator(op: Op) -> OperatorSpec:
    """The table's row for `op`; `GraphError` on a kind that it does not have."""
    spec = OPERATORS.get(op.kind)
    if spec is None:
        raise GraphError(
            f"unknown operator {op.kind}",
            node=op.name,
            source=op.source,
            hint=f"operators of this release: {', '.join(OPERATORS)}",
        )
    return spec


def complete_attributes(op: Op, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with defaults added, lists as tuples; `GraphError` on unknown or missing names."""
    spec = operator(op)
    for key in given:
        if key not in spec.attributes:
            known = ", ".join(spec.attributes) or "none"
            raise GraphError(
                f"{op.kind} has no attribute {key!r} (known: {known})",
                node=op.name,
                source=op.source,
            )
    merged = {**spec.attributes, **given}
    for key, value in merged.items():
        if value is None:
            raise GraphError(f"{op.kind} needs attribute {key!r}", node=op.name, source=op.source)
    return {k: tuple(v) if isinstance(v, list) else v for k, v in merged.items()}


def infer(graph: Graph, op: Op, out_dtype: str = "") -> tuple[Shape, str]:
    """Shape and dtype of the output of `op`, with every rule of the operator checked."""
    spec = operator(op)
    return spec.infer(Checker(graph, op, spec), out_dtype)


def verify(graph: Graph) -> None:
    """Names resolve, every tensor is written before it is read, shapes and types are inferred."""
    for name, tensor in graph.tensors.items():
        _verify_tensor(name, tensor)
    defined = set(graph.inputs) | {t.name for t in graph.tensors.values() if t.is_constant}
    for name in graph.inputs:
        if name not in graph.tensors:
            raise GraphError(f"graph input {name!r} is no tensor of the graph")
        if graph.tensors[name].is_constant:
            raise GraphError(f"graph input {name!r} is a constant")
    for op in graph.ops:
        _verify_op(graph, op, defined)
        defined.update(op.outputs)
    if not graph.outputs:
        raise GraphError(f"graph {graph.name!r} has no outputs")
    for name in graph.outputs:
        if name not in defined:
            raise GraphError(f"graph output {name!r} is never written")


def _verify_tensor(name: str, tensor: Tensor) -> None:
    if tensor.name != name:
        raise GraphError(f"tensor {tensor.name!r} is filed under {name!r}")
    if tensor.dtype not in DTYPES:
        raise GraphError(
            f"tensor {name!r}: unknown dtype {tensor.dtype!r}; known: {', '.join(DTYPES)}"
        )
    if any(not isinstance(s, int) or s < 1 for s in tensor.shape) and tensor.dtype != "shape":
        raise GraphError(f"tensor {name!r}: shape {list(tensor.shape)} must be whole numbers >= 1")
    data = tensor.data
    if data is not None and (data.shape != tensor.shape or data.dtype != DTYPES[tensor.dtype]):
        raise GraphError(
            f"constant {name!r}: data is {data.dtype}{list(data.shape)}, declared "
            f"{tensor.dtype}{list(tensor.shape)}"
        )


def _verify_op(graph: Graph, op: Op, defined: set[str]) -> None:
    complete_attributes(op, op.attributes)
    if len(op.outputs) != 1 or op.outputs[0] not in graph.tensors:
        raise GraphError(
            f"outputs {op.outputs}: must name one tensor", node=op.name, source=op.source
        )
    out = graph.tensors[op.outputs[0]]
    shape, dtype = infer(graph, op, out.dtype)
    for name in op.inputs:
        if name not in defined:
            raise GraphError(
                f"reads tensor {name!r} before it is written", node=op.name, source=op.source
            )
    if out.name in defined:
        raise GraphError(f"tensor {out.name!r} is written twice", node=op.name, source=op.source)
    if (shape, dtype) != (out.shape, out.dtype):
        raise GraphError(
            f"{op.kind} gives {dtype}{list(shape)}, tensor {out.name!r} is declared "
            f"{out.dtype}{list(out.shape)}",
            node=op.name,
            source=op.source,
        )
