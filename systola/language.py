"""What kernels are written with: `from systola.language import Tensor, dot, load, store, tiles`."""

from sw.language.errors import KernelError, RaceError
from sw.language.functions import activation, exponentials, reciprocal
from sw.language.kernel import Kernel, kernel
from sw.language.manual import semaphore
from sw.language.products import depthwise, dot
from sw.language.program import CompiledKernel, KernelRun
from sw.language.tensor import Tensor, empty, load, store
from sw.language.tiles import interleave, tiles
from sw.language.types import Spec, int8, int16, int32
from sw.language.values import Expression, Tile, keep

__all__ = [
    "CompiledKernel",
    "Expression",
    "Kernel",
    "KernelError",
    "KernelRun",
    "RaceError",
    "Spec",
    "Tensor",
    "Tile",
    "activation",
    "depthwise",
    "dot",
    "empty",
    "exponentials",
    "int8",
    "int16",
    "int32",
    "interleave",
    "keep",
    "kernel",
    "load",
    "reciprocal",
    "semaphore",
    "store",
    "tiles",
]
