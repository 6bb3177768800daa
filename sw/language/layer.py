"""A traced kernel as the one layer of a program, and the pipeline that compiles it.

The pipeline is the compiler's from stage `schedule` on; what stages before it make of a graph, the
trace has already.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import ClassVar

from spec.config import NpuConfig
from spec.isa import Engine
from spec.program import REGION_INPUT, REGION_OUTPUT
from sw.compiler.compilation import GIVEN, Compilation
from sw.compiler.kernels.base import KernelFamily, Layer, LayerProgram
from sw.compiler.kernels.budget import MemoryBudget
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.views import MemoryMap, View, dense, to_nhwc
from sw.compiler.pipeline import PIPELINE, STAGES, run_stages
from sw.compiler.placement.residency import Residency
from sw.compiler.program.semaphores import Program
from sw.compiler.program.virtual import VirtualInstruction, VirtualProgram
from sw.compiler.stages import Pipeline, Stage
from sw.compiler.tosa.graph import Graph, Op, Tensor, Work
from sw.language.emit.kernel import KernelEmitter, Origins
from sw.language.manual import manual_program
from sw.language.placement import Placement, place
from sw.language.steps import DepthwiseStep, DotStep
from sw.language.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPlan:
    """A kernel has cut itself: there is nothing to estimate."""

    spad_bytes: int
    cycles: int = 0
    traffic: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedLayer(Layer):
    """A trace and the places of its memories. `origins`: filled by the emitter."""

    engine: ClassVar[Engine] = Engine.MATRIX

    trace: Trace
    placement: Placement
    views: dict[str, View]
    origins: Origins = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[View, ...]:
        return tuple(self.views[name] for name in self.trace.inputs)

    @property
    def outputs(self) -> tuple[View, ...]:
        return tuple(self.views[name] for name in self.trace.outputs)

    @property
    def product_op(self) -> str:
        return self.name

    @property
    def signature(self) -> Hashable:
        return id(self.trace)


def _emit(layer: TracedLayer, plan: KernelPlan, context: EmitContext) -> None:
    KernelEmitter(layer.trace, layer.placement, context, layer.origins).run()


def _plan(layer: TracedLayer, config: NpuConfig, budget: MemoryBudget) -> KernelPlan:
    return KernelPlan(spad_bytes=layer.placement.spad_bytes)


TRACED = KernelFamily(layer=TracedLayer, plan=_plan, emit=_emit)
"""The family of traced kernels; the compiler's own registry does not have it."""


def traced_layer(trace: Trace) -> TracedLayer:
    """The layer of a trace; `KernelError` if its tiles do not fit."""
    views = {
        name: dense(name, spec.dtype, to_nhwc(spec.shape)) for name, spec in trace.tensors.items()
    }
    return TracedLayer(
        name=trace.name,
        output=views[trace.outputs[0]],
        ops=(trace.name,),
        source=str(trace.line),
        trace=trace,
        placement=place(trace),
        views=views,
    )


def compile_layer(layer: TracedLayer) -> Compilation:
    """The compiler's back stages on one layer."""
    trace = layer.trace
    return run_stages(
        _graph(trace),
        trace.config,
        name=trace.name,
        on_chip=False,
        families=(TRACED,),
        pipeline=_pipeline(layer),
    )


def _graph(trace: Trace) -> Graph:
    """Ports of the program, and its work; the operator has no meaning in TOSA."""
    macs = sum(s.macs for s in trace.steps if isinstance(s, DotStep | DepthwiseStep))
    work = Op(
        kind="KERNEL",
        name=trace.name,
        inputs=list(trace.inputs),
        outputs=list(trace.outputs),
        work=Work(macs=macs, weight_bytes=0),
    )
    return Graph(
        name=trace.name,
        inputs=list(trace.inputs),
        outputs=list(trace.outputs),
        ops=[work],
        tensors={
            name: Tensor(name=name, shape=spec.shape, dtype=spec.dtype)
            for name, spec in trace.tensors.items()
        },
    )


def _program(layer: TracedLayer) -> LayerProgram:
    trace = layer.trace
    region = dict.fromkeys(trace.inputs, REGION_INPUT) | dict.fromkeys(trace.outputs, REGION_OUTPUT)
    sizes = {n: math.prod(layer.views[n].shape) * layer.views[n].item for n in trace.tensors}
    storage = MemoryMap(nbytes=sizes, region=region, outputs={name: name for name in trace.outputs})
    return LayerProgram(layers=(layer,), storage=storage)


def _pipeline(layer: TracedLayer) -> Pipeline:
    """One stage for what the trace has, and the compiler's own from `schedule` on."""
    config = layer.trace.config

    def front(source: Graph) -> tuple[Graph, LayerProgram, Residency, list[KernelPlan]]:
        residency = Residency(budgets=(MemoryBudget.whole(config),))
        return source, _program(layer), residency, [_plan(layer, config, residency.budgets[0])]

    stage = Stage(
        name="kernel",
        makes=("graph", "layers", "residency", "plans"),
        run=front,
        dump=lambda layers: "".join(f"{step}\n" for step in layer.trace.steps),
    )
    names = [each.name for each in STAGES]
    back = STAGES[names.index("schedule") :]
    pipeline = Pipeline((stage, *back), given=GIVEN, results=PIPELINE.results)
    if not layer.trace.manual:
        return pipeline

    def in_order(virtual: VirtualProgram) -> list[VirtualInstruction]:
        return list(virtual.instructions)

    def by_hand(scheduled: list[VirtualInstruction], config: NpuConfig) -> Program:
        return manual_program(scheduled, layer.trace, layer.origins, config)

    return pipeline.replaced("list-scheduling", in_order).replaced("semaphores", by_hand)
