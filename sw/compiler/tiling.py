"""Stage `tiling`: a plan for every layer."""

from collections.abc import Hashable, Sequence

from spec.config import NpuConfig
from sw.compiler.errors import CompileError, LegalityError
from sw.compiler.layers import (
    ConvLayer,
    DepthwiseLayer,
    ElementwiseLayer,
    Layer,
    MoveLayer,
    PoolLayer,
    View,
)
from sw.compiler.move import MovePlan, plan_move
from sw.compiler.residency import Room
from sw.compiler.tiling_conv import ConvPlan, plan_conv
from sw.compiler.tiling_depthwise import DepthwisePlan, plan_depthwise
from sw.compiler.tiling_vector import VectorPlan, plan_vector

Plan = ConvPlan | DepthwisePlan | VectorPlan | MovePlan


class Planner:
    """Plans layers; layers that look alike share the search."""

    def __init__(self, config: NpuConfig) -> None:
        self.config = config
        self._known: dict[Hashable, Plan | CompileError] = {}

    def plan(self, layer: Layer, room: Room) -> Plan:
        """The best plan of `layer` in `room`; `CompileError` if none fits."""
        views = (*layer.inputs, layer.output)
        held = tuple((v.tensor in room.held, room.streams(v, self.config)) for v in views)
        key = (_signature(layer), room.buffer_bytes, room.beside, room.rowwise, held)
        if key not in self._known:
            try:
                self._known[key] = _plan(layer, self.config, room)
            except CompileError as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, CompileError):
            raise found
        return found

    def cost(self, layer: Layer, room: Room) -> int | None:
        """Estimated cycles of `layer` in `room`; None if it does not fit."""
        try:
            return self.plan(layer, room).cycles
        except CompileError:
            return None


def _signature(layer: Layer) -> Hashable:
    """Everything that a plan depends on, but no names and no values."""
    places = tuple(_place(view) for view in (*layer.inputs, layer.output))
    epilogue = getattr(layer, "epilogue", None)
    kinds = None if epilogue is None else (epilogue.dtype, epilogue.scale, epilogue.uses_params)
    rest: tuple[Hashable, ...] = ()
    if isinstance(layer, ConvLayer):
        constant = layer.weights is not None
        rest = (layer.kernel, layer.stride, layer.dilation, layer.pad, constant)
    elif isinstance(layer, DepthwiseLayer):
        rest = (layer.kernel, layer.stride, layer.dilation, layer.pad)
    elif isinstance(layer, PoolLayer):
        rest = (layer.kernel, layer.stride, layer.pad, layer.average)
    elif isinstance(layer, MoveLayer):
        rest = (layer.source_shape, layer.source_strides, layer.before)
    return type(layer), places, kinds, rest


def _place(view: View) -> Hashable:
    return view.dtype, view.shape, view.strides, view.offset


def _plan(layer: Layer, config: NpuConfig, room: Room) -> Plan:
    if isinstance(layer, ConvLayer):
        return plan_conv(layer, config, room)
    if isinstance(layer, DepthwiseLayer):
        return plan_depthwise(layer, config, room)
    if isinstance(layer, MoveLayer):
        return plan_move(layer, config, room)
    if isinstance(layer, ElementwiseLayer | PoolLayer):
        return plan_vector(layer, config, room)
    raise LegalityError("no tiling for this layer", node=layer.name)


def check_plans(
    layers: Sequence[Layer], plans: Sequence[Plan], rooms: Sequence[Room], config: NpuConfig
) -> None:
    """Every plan fits in scratchpad and accumulator."""
    for layer, plan, room in zip(layers, plans, rooms, strict=True):
        if plan.spad_bytes > room.buffer_bytes:
            raise LegalityError(
                f"tiles need {plan.spad_bytes} of {room.buffer_bytes} scratchpad bytes",
                node=layer.name,
            )
        if isinstance(plan, ConvPlan) and plan.th * plan.tw > config.acc_half:
            raise LegalityError(
                f"tile {plan.th}x{plan.tw} exceeds an accumulator half of {config.acc_half}",
                node=layer.name,
            )
