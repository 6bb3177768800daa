"""Stage `tiling`: a plan for every layer."""

from collections.abc import Sequence

from spec.config import NpuConfig
from sw.compiler.errors import LegalityError
from sw.compiler.geometry import geometry
from sw.compiler.layers import ConvLayer, Layer
from sw.compiler.tiling_conv import ConvPlan, plan_conv

Plan = ConvPlan


def plan_layers(layers: Sequence[Layer], config: NpuConfig) -> list[Plan]:
    """One plan per layer, in order."""
    return [_plan(layer, config) for layer in layers]


def _plan(layer: Layer, config: NpuConfig) -> Plan:
    if isinstance(layer, ConvLayer):
        return plan_conv(geometry(layer), config)
    raise LegalityError("no tiling for this layer", node=layer.name)


def check_plans(layers: Sequence[Layer], plans: Sequence[Plan], config: NpuConfig) -> None:
    """Every plan fits in scratchpad and accumulator."""
    for layer, plan in zip(layers, plans, strict=True):
        used = plan.act_slots * plan.act_bytes + plan.wgt_slots * plan.wgt_bytes
        used += plan.out_slots * plan.out_bytes
        if used > config.spad_bytes:
            raise LegalityError(f"tiles need {used} scratchpad bytes", node=layer.name)
        if plan.th * plan.tw > config.acc_half:
            raise LegalityError(
                f"tile {plan.th}x{plan.tw} exceeds an accumulator half of {config.acc_half}",
                node=layer.name,
            )
