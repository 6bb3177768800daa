"""ResizeLayer: RESIZE BILINEAR of int8, with what follows it."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from spec.isa import Engine
from sw.compiler.kernels.base import Layer
from sw.compiler.kernels.operands import Epilogue, epilogue_signature
from sw.compiler.kernels.resize.axis import ResizeAxis
from sw.compiler.kernels.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeLayer(Layer):
    """Every output is a weighted sum of up to four inputs; the epilogue has no parameters."""

    engine: ClassVar[Engine] = Engine.DEPTHWISE

    input: View
    epilogue: Epilogue
    rows: ResizeAxis
    cols: ResizeAxis

    @property
    def inputs(self) -> tuple[View, ...]:
        return (self.input,)

    @property
    def uses_table(self) -> bool:
        return self.epilogue.table is not None

    @property
    def signature(self) -> Hashable:
        return epilogue_signature(self.epilogue), self.rows, self.cols

    def __str__(self) -> str:
        axes = " ".join(f"{a.size}·{a.scale}/{a.step}{a.offset:+d}" for a in (self.rows, self.cols))
        return f"resize {self.name}: {self.output} = {self.input} {axes}; {self.epilogue}"
