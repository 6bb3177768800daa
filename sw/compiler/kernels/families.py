"""The kernel families: a row for each kind of layer."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from sw.compiler.errors import LegalityError
from sw.compiler.kernels.base import KernelFamily, Layer
from sw.compiler.kernels.conv.emit import emit_conv
from sw.compiler.kernels.conv.layer import ConvLayer
from sw.compiler.kernels.conv.plan import check_conv, near_conv, plan_conv
from sw.compiler.kernels.depthwise.emit import emit_depthwise
from sw.compiler.kernels.depthwise.layer import DepthwiseLayer
from sw.compiler.kernels.depthwise.plan import plan_depthwise
from sw.compiler.kernels.elementwise.emit import emit_elementwise
from sw.compiler.kernels.elementwise.layer import ElementwiseLayer
from sw.compiler.kernels.elementwise.plan import plan_elementwise
from sw.compiler.kernels.fused.emit import emit_fused
from sw.compiler.kernels.fused.layer import FusedLayer
from sw.compiler.kernels.fused.plan import plan_fused
from sw.compiler.kernels.gather.emit import emit_gather
from sw.compiler.kernels.gather.layer import GatherLayer
from sw.compiler.kernels.gather.plan import plan_gather
from sw.compiler.kernels.move.emit import emit_move
from sw.compiler.kernels.move.layer import MoveLayer
from sw.compiler.kernels.move.plan import plan_move
from sw.compiler.kernels.pool.emit import emit_pool
from sw.compiler.kernels.pool.layer import PoolLayer
from sw.compiler.kernels.pool.plan import plan_pool
from sw.compiler.kernels.resize.emit import emit_resize
from sw.compiler.kernels.resize.layer import ResizeLayer
from sw.compiler.kernels.resize.plan import plan_resize
from sw.compiler.kernels.transpose.emit import emit_transpose
from sw.compiler.kernels.transpose.layer import TransposeLayer
from sw.compiler.kernels.transpose.plan import plan_transpose

AnyFamily: TypeAlias = KernelFamily[Any, Any]
Families: TypeAlias = Sequence[AnyFamily]

FAMILIES: tuple[AnyFamily, ...] = (
    KernelFamily(layer=ConvLayer, plan=plan_conv, emit=emit_conv, check=check_conv, near=near_conv),
    KernelFamily(layer=DepthwiseLayer, plan=plan_depthwise, emit=emit_depthwise),
    KernelFamily(layer=ResizeLayer, plan=plan_resize, emit=emit_resize),
    KernelFamily(layer=PoolLayer, plan=plan_pool, emit=emit_pool),
    KernelFamily(layer=ElementwiseLayer, plan=plan_elementwise, emit=emit_elementwise),
    KernelFamily(layer=FusedLayer, plan=plan_fused, emit=emit_fused),
    KernelFamily(layer=MoveLayer, plan=plan_move, emit=emit_move),
    KernelFamily(layer=TransposeLayer, plan=plan_transpose, emit=emit_transpose),
    KernelFamily(layer=GatherLayer, plan=plan_gather, emit=emit_gather),
)


def family_of(layer: Layer, families: Families) -> AnyFamily:
    """The row of `layer`; `LegalityError` if no family computes it."""
    for family in families:
        if family.layer is type(layer):
            return family
    raise LegalityError(f"no kernel family computes this {type(layer).__name__}", node=layer.name)
