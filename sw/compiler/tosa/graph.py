"""The graph IR: TOSA 1.0 operators, attributes and operand names over named tensors.

Layout is TOSA's: activations NHWC, CONV2D weights OHWI, DEPTHWISE_CONV2D weights HWCM (output
channel c·M + m reads input channel c). A constant is a tensor with `data`;
the CONST and CONST_SHAPE operators of the specification are implied by it, so a graph holds no
such operators. Operands that TOSA 1.0 types as `shape` (of RESHAPE, PAD, SLICE, TILE, RESIZE) are
constants of dtype `shape` (int64 data). Zero points, multipliers and shifts are operands as in the
specification.

    g = Graph(name="net")
    x = g.add_input("x", (1, 8, 8, 3), "int8", scale=0.1, zero_point=-3)
    y = g.add_op("CLAMP", [x], {"min_val": 0, "max_val": 100}, name="relu")
    g.outputs = [y]
    g.verify()

`sw/compiler/tosa/table.py` has the operators with their rules, `nodes.py` tensors and operators.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spec.program import MAX_REGION_BYTES
from sw.compiler.errors import GraphError
from sw.compiler.tosa.nodes import DTYPES, Op, Striped, Tensor, Work
from sw.compiler.tosa.table import complete_attributes, infer

__all__ = ["DTYPES", "Graph", "Op", "Striped", "Tensor", "Work"]

_MOST_DIMENSIONS = 16
_BLOCK = 1 << 16
"""Elements that are compared at once."""


@dataclass(slots=True, kw_only=True, eq=False)
class Graph:
    """Tensors by name and operators in execution order; `inputs` and `outputs` are tensor names.

    `modules`: by operator name, the submodule of the user's model that it came from, where known.
    `striped`: what a pass has cut into stripes of rows.
    """

    name: str = "graph"
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    striped: list[Striped] = field(default_factory=list)

    # Building ---------------------------------------------------------------------------------

    def add_tensor(self, tensor: Tensor) -> str:
        """Add a tensor under its own name; `GraphError` if the name is taken."""
        if tensor.name in self.tensors:
            raise GraphError(
                f"tensor name {tensor.name!r} is used twice", hint="rename one of them"
            )
        self.tensors[tensor.name] = tensor
        return tensor.name

    def add_input(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "int8",
        *,
        scale: float = 0.0,
        zero_point: int = 0,
    ) -> str:
        """Add a graph input and return its name."""
        self.add_tensor(
            Tensor(name=name, shape=tuple(shape), dtype=dtype, scale=scale, zero_point=zero_point)
        )
        self.inputs.append(name)
        return name

    def add_constant(self, name: str, data: ArrayLike, dtype: str) -> str:
        """Add a constant, range-checked against `dtype`; a taken name gets a number appended.

        An array of that very type is not copied.
        """
        array = np.asarray(data)
        kind = DTYPES.get(dtype)
        if kind is None:
            raise GraphError(
                f"constant {name!r}: unknown dtype {dtype!r}; known: {', '.join(DTYPES)}"
            )
        converted = array.astype(kind, copy=False)
        if not _same_integers(converted, array):
            raise GraphError(
                f"constant {name!r}: values {array.min()}…{array.max()} do not fit in {dtype}"
            )
        name = self.fresh_name(name)
        return self.add_tensor(
            Tensor(name=name, shape=converted.shape, dtype=dtype, data=converted)
        )

    def add_op(
        self,
        kind: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        output: str = "",
        source: str = "",
        out_dtype: str = "",
        scale: float = 0.0,
        zero_point: int = 0,
    ) -> str:
        """Append an operator with one output and return that tensor's name.

        Shape and dtype of the output are inferred; `out_dtype` is needed where the operands do
        not determine it (RESCALE). Left-out attributes take the operator's defaults. `scale` and
        `zero_point` describe the output's quantization. `GraphError` on anything illegal.
        """
        name = name or self.fresh_name(kind.lower())
        op = Op(kind=kind, name=name, inputs=list(inputs), outputs=[], source=source)
        op.attributes = complete_attributes(op, attributes or {})
        shape, dtype = infer(self.tensors, op, out_dtype)
        out = self.fresh_name(output or name)
        self.add_tensor(
            Tensor(name=out, shape=shape, dtype=dtype, scale=scale, zero_point=zero_point)
        )
        op.outputs = [out]
        self.ops.append(op)
        return out

    def fresh_name(self, base: str) -> str:
        """`base`, or `base_2`, `base_3`, … if a tensor has that name."""
        name, n = base, 1
        while name in self.tensors:
            n += 1
            name = f"{base}_{n}"
        return name

    # Reading ----------------------------------------------------------------------------------

    def copy(self) -> "Graph":
        """A copy whose operators may be changed; tensors are shared, they are never changed."""
        ops = [op.copy() for op in self.ops]
        return Graph(
            name=self.name,
            inputs=list(self.inputs),
            outputs=list(self.outputs),
            ops=ops,
            tensors=dict(self.tensors),
            modules=self.modules,
            striped=list(self.striped),
        )

    def producers(self) -> dict[str, Op]:
        """The operator that writes each tensor."""
        return {out: op for op in self.ops for out in op.outputs}

    def consumers(self) -> dict[str, list[Op]]:
        """The operators that read each tensor, in order (twice if it is two operands)."""
        users: dict[str, list[Op]] = {name: [] for name in self.tensors}
        for op in self.ops:
            for name in op.inputs:
                users[name].append(op)
        return users

    def constant(self, name: str) -> NDArray[Any]:
        """The data of constant `name`; `GraphError` if it is not one."""
        data = self.tensors[name].data
        if data is None:
            raise GraphError(f"tensor {name!r} must be a constant", hint="fold it before compiling")
        return data

    def verify(self) -> None:
        """Names resolve, every tensor is written before it is read, shapes and types are inferred.

        `GraphError` names the first operator or tensor that is wrong.
        """
        for name, tensor in self.tensors.items():
            _verify_tensor(name, tensor)
        defined = set(self.inputs) | {t.name for t in self.tensors.values() if t.is_constant}
        for name in self.inputs:
            if name not in self.tensors:
                raise GraphError(f"graph input {name!r} is no tensor of the graph")
            if self.tensors[name].is_constant:
                raise GraphError(f"graph input {name!r} is a constant")
        for op in self.ops:
            _verify_op(self, op, defined)
            defined.update(op.outputs)
        if not self.outputs:
            raise GraphError(f"graph {self.name!r} has no outputs")
        for name in self.outputs:
            if name not in defined:
                raise GraphError(f"graph output {name!r} is never written")

    def __str__(self) -> str:
        lines = [f"graph {self.name}"]
        lines += [f"  input {self.tensors[n]}{_quantization(self.tensors[n])}" for n in self.inputs]
        for t in self.tensors.values():
            if t.data is not None:
                lines.append(f"  const {t} = {_summary(t.data)}")
        for op in self.ops:
            outs = ", ".join(
                f"{self.tensors[o]}{_quantization(self.tensors[o])}" for o in op.outputs
            )
            args = ", ".join(f"%{i}" for i in op.inputs)
            attrs = " ".join(f"{k}={_value(v)}" for k, v in op.attributes.items())
            source = f"  # {op.source}" if op.source else ""
            lines.append(
                f"  {outs} = {op.kind}({args})" + (f" {{{attrs}}}" if attrs else "") + source
            )
        lines.append(f"  return {', '.join('%' + n for n in self.outputs)}")
        return "\n".join(lines) + "\n"


def _same_integers(converted: NDArray[Any], array: NDArray[Any]) -> bool:
    """Whether a conversion kept every integer, compared in blocks: constants can be large."""
    if converted.dtype == array.dtype:
        return True
    flat, given = converted.reshape(-1), array.reshape(-1)
    return all(
        np.array_equal(
            flat[at : at + _BLOCK].astype(np.int64), given[at : at + _BLOCK].astype(np.int64)
        )
        for at in range(0, flat.size, _BLOCK)
    )


def _quantization(tensor: Tensor) -> str:
    return f" scale={tensor.scale:.6g} zp={tensor.zero_point}" if tensor.scale else ""


def _value(value: object) -> str:
    if isinstance(value, tuple | list):
        return "[" + ",".join(map(str, value)) + "]"
    return str(value)


def _summary(data: NDArray[Any]) -> str:
    if data.size <= 8:
        return str(data.tolist())
    return f"<{data.size} elements, {data.min()}…{data.max()}>"


def _verify_tensor(name: str, tensor: Tensor) -> None:
    if tensor.name != name:
        raise GraphError(f"tensor {tensor.name!r} is filed under {name!r}")
    if tensor.dtype not in DTYPES:
        raise GraphError(
            f"tensor {name!r}: unknown dtype {tensor.dtype!r}; known: {', '.join(DTYPES)}"
        )
    if any(not isinstance(s, int) or s < 1 for s in tensor.shape) and tensor.dtype != "shape":
        raise GraphError(f"tensor {name!r}: shape {list(tensor.shape)} must be whole numbers >= 1")
    if len(tensor.shape) > _MOST_DIMENSIONS:
        raise GraphError(
            f"tensor {name!r}: {len(tensor.shape)} dimensions; at most {_MOST_DIMENSIONS}"
        )
    if tensor.nbytes > MAX_REGION_BYTES:
        raise GraphError(
            f"tensor {name!r}: {tensor.dtype}{list(tensor.shape)} is {tensor.nbytes:,} bytes; a "
            f"tensor may have {MAX_REGION_BYTES:,}",
            hint="use smaller shapes",
        )
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
    shape, dtype = infer(graph.tensors, op, out.dtype)
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
