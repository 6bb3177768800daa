"""Element types and shapes of tensors: `int8[64, 128]`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spec.names import did_you_mean
from spec.numerics import RANGES
from sw.compiler.kernels.views import DTYPE, ITEM
from sw.language.errors import KernelError

DTYPES = ("int8", "int16", "int32")


@dataclass(frozen=True, slots=True)
class Spec:
    """Element type and shape of a tensor; `str` gives `int8[64, 128]`."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Kind:
    """An element type; indexed with sizes it is the `Spec` of a tensor."""

    name: str

    def __getitem__(self, sizes: int | tuple[int, ...]) -> Spec:
        return as_spec("a tensor", (self.name, sizes if isinstance(sizes, tuple) else (sizes,)))


int8, int16, int32 = (Kind(name) for name in DTYPES)


def check_dtype(name: str, what: str, source: str = "") -> str:
    """`name`, if it is an element type of the NPU."""
    if name not in DTYPES:
        near = did_you_mean(name, DTYPES)
        raise KernelError(
            f"{what}: dtype {name!r}: must be one of {', '.join(DTYPES)}{near}", source=source
        )
    return name


def item_bytes(dtype: str) -> int:
    """Bytes of an element."""
    return ITEM[dtype]


def limits(dtype: str) -> tuple[int, int]:
    """Least and largest value."""
    return RANGES[DTYPE[dtype]]


def as_spec(name: str, given: Any) -> Spec:
    """A `Spec`, a pair (dtype, shape), or anything with `shape` and `dtype` as a `Spec`."""
    if isinstance(given, Spec):
        return given
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        dtype, shape = given
    elif hasattr(given, "shape") and hasattr(given, "dtype"):
        dtype, shape = str(given.dtype).removeprefix("torch."), given.shape
    else:
        raise KernelError(
            f"{name}: {given!r}: is no shape with an element type",
            hint="write int8[64, 128], or give an array",
        )
    check_dtype(dtype, name)
    return Spec(dtype, _sizes(name, shape))


def _sizes(name: str, shape: Sequence[Any]) -> tuple[int, ...]:
    sizes = tuple(int(n) if hasattr(n, "__index__") else -1 for n in shape)
    if not sizes or any(n < 1 for n in sizes):
        raise KernelError(f"{name}: shape {list(shape)}: must be whole numbers from 1 on")
    return sizes
