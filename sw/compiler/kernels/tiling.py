"""Stage `tiling`: a plan for every layer."""

from collections import defaultdict
from collections.abc import Hashable, Sequence

from spec.config import NpuConfig
from sw.compiler.errors import CompileError, LegalityError
from sw.compiler.kernels.conv.plan import ConvPlan, plan_conv
from sw.compiler.kernels.depthwise.plan import DepthwisePlan, plan_depthwise
from sw.compiler.kernels.fused.layer import MapLayer
from sw.compiler.kernels.fused.plan import MapPlan, plan_map
from sw.compiler.kernels.gather.gather import GatherLayer, GatherPlan, plan_gather
from sw.compiler.kernels.layers import (
    ConvLayer,
    DepthwiseLayer,
    ElementwiseLayer,
    Layer,
    MoveLayer,
    PoolLayer,
)
from sw.compiler.kernels.move.move import MovePlan, plan_move
from sw.compiler.kernels.pool.plan import VectorPlan, plan_vector
from sw.compiler.kernels.views import View
from sw.compiler.placement.residency import Room

Plan = ConvPlan | DepthwisePlan | VectorPlan | MovePlan | MapPlan | GatherPlan


class Planner:
    """Plans layers; layers that look alike share the search."""

    def __init__(self, config: NpuConfig) -> None:
        self.config = config
        self._known: dict[Hashable, list[tuple[int, Plan | CompileError]]] = defaultdict(list)

    def plan(self, layer: Layer, room: Room) -> Plan:
        """The best plan of `layer` in `room`; `CompileError` if none fits.

        The best plan of a larger room, where it fits, is the best of the smaller one.
        """
        views = (*layer.inputs, layer.output)
        held = tuple((v.tensor in room.held, room.streams(v, self.config)) for v in views)
        size = room.buffer_bytes
        known = self._known[_signature(layer), room.beside, room.rowwise, held]
        for searched, found in known:
            if size == searched or (size < searched and _serves(found, size)):
                break
        else:
            found = _attempt(layer, self.config, room)
            known.append((size, found))
        if isinstance(found, CompileError):
            raise found
        return found

    def cost(self, layer: Layer, room: Room) -> int | None:
        """Estimated cycles of `layer` in `room`; None if it does not fit."""
        try:
            return self.plan(layer, room).cycles
        except CompileError:
            return None


def _attempt(layer: Layer, config: NpuConfig, room: Room) -> Plan | CompileError:
    try:
        return _plan(layer, config, room)
    except CompileError as error:
        return error


def _serves(found: Plan | CompileError, size: int) -> bool:
    """Whether the result of a search in more than `size` bytes holds for `size`."""
    return isinstance(found, CompileError) or found.spad_bytes <= size


def _signature(layer: Layer) -> Hashable:
    """Everything that a plan depends on, but no names and no values."""
    places = tuple(_place(view) for view in (*layer.inputs, layer.output))
    epilogue = getattr(layer, "epilogue", None)
    kinds: Hashable = None
    if epilogue is not None:
        passes = len(epilogue.passes), len(epilogue.param_passes)
        kinds = (epilogue.dtype, epilogue.scale, passes)
    rest: tuple[Hashable, ...] = ()
    if isinstance(layer, ConvLayer):
        constant = layer.weights is not None
        rest = (layer.kernel, layer.stride, layer.dilation, layer.pad, constant)
    elif isinstance(layer, DepthwiseLayer):
        rest = (layer.kernel, layer.stride, layer.dilation, layer.pad)
    elif isinstance(layer, PoolLayer):
        rest = (layer.kernel, layer.stride, layer.pad, layer.average, layer.sums)
    elif isinstance(layer, MoveLayer):
        rest = (layer.source_shape, layer.source_strides, layer.before, layer.target)
    elif isinstance(layer, GatherLayer):
        rest = (layer.batch, layer.rows, layer.row_bytes)
    elif isinstance(layer, MapLayer):
        steps = tuple((s.a, s.b, s.out, s.reduce, s.axis, s.params) for s in layer.steps)
        uses = tuple((s.values.get("alu"), s.values.get("a_scale")) for s in layer.steps)
        kept = tuple(result.register for result in layer.results)
        rest = (layer.shape, layer.registers, steps, uses, kept, layer.whole, layer.product)
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
    if isinstance(layer, GatherLayer):
        return plan_gather(layer, config, room)
    if isinstance(layer, MapLayer):
        return plan_map(layer, config, room)
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
