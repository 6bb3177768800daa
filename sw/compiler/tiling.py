"""Stage `tiling`: a plan for every layer."""

from collections.abc import Sequence

from spec.config import NpuConfig
from sw.compiler.errors import LegalityError
from sw.compiler.layers import (
    ConvLayer,
    DepthwiseLayer,
    ElementwiseLayer,
    Layer,
    MoveLayer,
    PoolLayer,
)
from sw.compiler.move import MovePlan, plan_move
from sw.compiler.tiling_conv import ConvPlan, plan_conv
from sw.compiler.tiling_depthwise import DepthwisePlan, plan_depthwise
from sw.compiler.tiling_vector import VectorPlan, plan_vector

Plan = ConvPlan | DepthwisePlan | VectorPlan | MovePlan


def plan_layers(layers: Sequence[Layer], config: NpuConfig) -> list[Plan]:
    """One plan per layer, in order."""
    return [_plan(layer, config) for layer in layers]


def _plan(layer: Layer, config: NpuConfig) -> Plan:
    if isinstance(layer, ConvLayer):
        return plan_conv(layer, config)
    if isinstance(layer, DepthwiseLayer):
        return plan_depthwise(layer, config)
    if isinstance(layer, MoveLayer):
        return plan_move(layer, config)
    if isinstance(layer, ElementwiseLayer | PoolLayer):
        return plan_vector(layer, config)
    raise LegalityError("no tiling for this layer", node=layer.name)


def check_plans(layers: Sequence[Layer], plans: Sequence[Plan], config: NpuConfig) -> None:
    """Every plan fits in scratchpad and accumulator."""
    for layer, plan in zip(layers, plans, strict=True):
        if plan.spad_bytes > config.spad_bytes:
            raise LegalityError(
                f"tiles need {plan.spad_bytes} of {config.spad_bytes} scratchpad bytes",
                node=layer.name,
            )
        if isinstance(plan, ConvPlan) and plan.th * plan.tw > config.acc_half:
            raise LegalityError(
                f"tile {plan.th}x{plan.tw} exceeds an accumulator half of {config.acc_half}",
                node=layer.name,
            )
