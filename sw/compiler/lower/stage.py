"""Stage `lower`: the TOSA graph becomes layers; everything that follows a product is fused into it.

A layer is CONV2D, DEPTHWISE_CONV2D or MATMUL + RESCALE + CLAMP + TABLE, a pooling + CLAMP + TABLE,
or RESCALE x 2 + ADD (SUB, MAXIMUM, MINIMUM) + RESCALE + CLAMP + TABLE. Only values that nobody else
reads are fused away.
RESHAPE, IDENTITY and SLICE become views, TRANSPOSE too next to matrix products (see `permutes`).
"""

from collections.abc import Callable
from dataclasses import replace

from spec.config import NpuConfig
from spec.numerics import RANGES
from sw.compiler.errors import CompileError
from sw.compiler.kernels.layers import ElementwiseLayer, Epilogue, LayerProgram, Operand
from sw.compiler.kernels.views import DTYPE, UNSIGNED, to_nhwc
from sw.compiler.lower.chains import ChainLowering
from sw.compiler.lower.conv3d import ConvLowering
from sw.compiler.lower.elementwise import BINARY, STEPS
from sw.compiler.lower.fusion import ALU
from sw.compiler.lower.gathers import GatherLowering
from sw.compiler.lower.moves import MoveLowering
from sw.compiler.lower.pools import PoolLowering
from sw.compiler.lower.reductions import REDUCTIONS
from sw.compiler.lower.transpose_conv import TransposeConvLowering
from sw.compiler.tosa.graph import Graph, Op


class Lowering(
    PoolLowering, ConvLowering, TransposeConvLowering, MoveLowering, ChainLowering, GatherLowering
):
    """Walks the operators in order; those that an earlier layer has absorbed are passed over."""

    def run(self) -> LayerProgram:
        """The layers of the whole graph; `CompileError` names the operator that has none."""
        for op in self.graph.ops:
            # A product that a sum follows waits for the sum's other operand.
            over = id(op) in self.fusion.done or id(op) in self.fusion.deferred
            if not over and not self.chain(op):
                self._handler(op)(op)
        for out in self.graph.outputs:
            self._own_output(out)
        layers = tuple(part for layer in self.layers for part in layer.split())
        return LayerProgram(layers=layers, storage=self.storage.memory)

    def _handler(self, op: Op) -> Callable[[Op], None]:
        handlers: dict[str, Callable[[Op], None]] = {
            "CONV2D": self.conv2d,
            "DEPTHWISE_CONV2D": self.depthwise_conv2d,
            "MATMUL": self.matmul,
            "MAX_POOL2D": self.pool,
            "AVG_POOL2D": self.pool,
            "RESCALE": self._rescale,
            "CLAMP": self._unary,
            "TABLE": self._table,
            "RESHAPE": self.alias,
            "IDENTITY": self.alias,
            "SLICE": self.alias,
            "TRANSPOSE": self.transpose,
            "PAD": self.pad,
            "CONCAT": self.concat,
            "TILE": self.tile,
            "REVERSE": self.reverse,
            **dict.fromkeys(BINARY, self.elementwise),
            **dict.fromkeys(ALU, self._binary),
            **dict.fromkeys(REDUCTIONS, self.reduction),
            "ARGMAX": self.argmax,
            "CONV3D": self.conv3d,
            "TRANSPOSE_CONV2D": self.transpose_conv2d,
            "GATHER": self.gather,
            "SCATTER": self.scatter,
            "RESIZE": self.resize,
            **dict.fromkeys(STEPS, self.elementwise),
        }
        if op.kind not in handlers:
            raise CompileError(
                f"operator {op.kind} has no implementation on the device",
                node=op.name,
                source=op.source,
                hint=f"supported: {', '.join(sorted(handlers))}",
            )
        return handlers[op.kind]

    def _own_output(self, name: str) -> None:
        """Give graph output `name` its own place in the output region, by a copy if need be."""
        if not self.storage.claim_output(name):
            self.move(name, self.storage.add_output(name), f"{name}.output", "")

    # Elementwise ------------------------------------------------------------------------------

    def _binary(self, op: Op) -> None:
        if (found := self.fusion.sum_at.get(id(op))) is not None:
            self._handler(found.product)(found.product)
            return
        shapes = [self.graph.tensors[i].shape for i in op.inputs]
        if shapes[0] != shapes[1]:
            self.elementwise(op)
            return
        names = [op.kind]
        shape = to_nhwc(shapes[0])
        a, b = (self.operand(i, shape) for i in op.inputs)
        out, epilogue = self.fusion.after_int32(op.outputs[0], names)
        self.layers.append(
            ElementwiseLayer(
                name=op.name,
                output=self.output(out, shape),
                ops=tuple(names),
                source=op.source,
                a=a,
                b=b,
                alu=ALU[op.kind],
                epilogue=epilogue,
            )
        )

    def _rescale(self, op: Op) -> None:
        names = [op.kind]
        shape = to_nhwc(self.graph.tensors[op.inputs[0]].shape)
        unsigned = op.attributes["input_unsigned"]
        kind = (UNSIGNED if unsigned else DTYPE)[self.graph.tensors[op.inputs[0]].dtype]
        epilogue = Epilogue(**self.fusion.rescale_values(op))
        out, epilogue = self.fusion.clamps(op.outputs[0], epilogue, names)
        a = Operand(
            view=self.view(op.inputs[0], shape),
            dtype=kind,
            zero_point=self.fusion.zero_point(op.inputs[3], unsigned),
        )
        self._append_unary(op, names, a, out, epilogue)

    def _table(self, op: Op) -> None:
        if self.graph.tensors[op.inputs[0]].dtype == "int16":
            self.elementwise(op)
        else:
            self._unary(op)

    def _unary(self, op: Op) -> None:
        """A CLAMP or TABLE that no layer before it could take."""
        names: list[str] = []
        tensor = self.graph.tensors[op.inputs[0]]
        kind = DTYPE[tensor.dtype]
        low, high = RANGES[kind]
        epilogue = Epilogue(dtype=kind, low=low, high=high)
        if op.kind == "CLAMP":
            epilogue = replace(
                epilogue,
                low=max(low, op.attributes["min_val"]),
                high=min(high, op.attributes["max_val"]),
            )
            names.append(op.kind)
            out, epilogue = self.fusion.clamps(op.outputs[0], epilogue, names)
        else:
            epilogue = replace(epilogue, table=self.graph.constant(op.inputs[1]))
            out = self.fusion.absorb(op, names)
        a = Operand(view=self.view(op.inputs[0], to_nhwc(tensor.shape)), dtype=kind)
        self._append_unary(op, names, a, out, epilogue)

    def _append_unary(
        self, op: Op, names: list[str], a: Operand, out: str, epilogue: Epilogue
    ) -> None:
        self.layers.append(
            ElementwiseLayer(
                name=op.name,
                output=self.output(out, a.view.shape),
                ops=tuple(names),
                source=op.source,
                a=a,
                epilogue=epilogue,
            )
        )


def lower(graph: Graph, config: NpuConfig, fold: bool = True) -> LayerProgram:
    """Layers of `graph` for `config`; `CompileError` on an operator that the device lacks.

    Without `fold`, weights and biases are read from memory as tensors, constant or not. Constants
    that lowering needs are added to `graph`.
    """
    return Lowering(graph, config, fold).run()
