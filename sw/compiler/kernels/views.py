"""Where tensors lie in memory: element types, strided views of a root, and the map of all roots.

A root is a block of memory with a name. Several tensors can lie in one: a RESHAPE or SLICE of a
tensor is the same root under other strides.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from spec.isa import DType

ITEM = {"bool": 1, "int8": 1, "int16": 2, "int32": 4}
DTYPE = {"bool": DType.I8, "int8": DType.I8, "int16": DType.I16, "int32": DType.I32}
UNSIGNED = {"int8": DType.U8, "int16": DType.U16, "int32": DType.I32}

Shape4 = tuple[int, int, int, int]


def to_nhwc(shape: tuple[int, ...]) -> Shape4:
    """Any shape as four dimensions with the last one kept: the others join from the left."""
    lead = (1,) * max(0, 4 - len(shape)) + tuple(shape)
    n = 1
    for size in lead[: len(lead) - 3]:
        n *= size
    h, w, c = lead[-3:]
    return (n, h, w, c)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A strided 4-D piece of a tensor in memory: shape NHWC, strides and offset in bytes.

    Channels are contiguous.
    """

    tensor: str
    dtype: str
    shape: tuple[int, int, int, int]
    strides: tuple[int, int, int]
    offset: int = 0

    @property
    def item(self) -> int:
        return ITEM[self.dtype]

    @property
    def is_dense(self) -> bool:
        _, h, w, c = self.shape
        row = w * c * self.item
        return self.strides == (h * row, row, c * self.item)

    def channels(self, part: slice) -> "View":
        """Channels `part` of every pixel."""
        n, h, w, _ = self.shape
        offset = self.offset + part.start * self.item
        return replace(self, shape=(n, h, w, part.stop - part.start), offset=offset)

    def samples(self, part: int, parts: int) -> "View":
        """Part `part` of the batch, which is cut into `parts` equal ones."""
        n = self.shape[0] // parts
        offset = self.offset + part * n * self.strides[0]
        return replace(self, shape=(n, *self.shape[1:]), offset=offset)

    def beside(self, other: "View") -> bool:
        """Whether two views of one tensor are other channels of the same pixels."""
        pixel = self.strides[2]
        if self.strides != other.strides or not pixel:
            return False
        first, second = sorted((v.offset % pixel, v.shape[3] * v.item) for v in (self, other))
        return sum(first) <= second[0] and sum(second) <= pixel

    def __str__(self) -> str:
        at = "" if not self.offset and self.is_dense else f"+{self.offset}{list(self.strides)}"
        return f"%{self.tensor}{at}:{self.dtype}{list(self.shape)}"


def dense(tensor: str, dtype: str, shape: tuple[int, int, int, int], offset: int = 0) -> View:
    """The view of a dense row-major NHWC tensor."""
    row = shape[2] * shape[3] * ITEM[dtype]
    return View(
        tensor=tensor,
        dtype=dtype,
        shape=shape,
        strides=(shape[1] * row, row, shape[3] * ITEM[dtype]),
        offset=offset,
    )


def in_rows(views: Sequence[View], *, channels: bool) -> list[View]:
    """The same elements of views of one shape in as few dimensions as strides allow, so that a tile
    may have many of the first one. `channels`: the last dimension stays what it is.
    """
    sizes = views[0].shape
    kept = [d for d in range(4) if sizes[d] > 1 or d == 3]
    # Size, and strides of all views; joined from the right.
    dims = [(sizes[d], [(*v.strides, v.item)[d] for v in views]) for d in kept]
    out = [dims.pop()]
    while dims:
        (size, steps), (inner, inside) = dims.pop(), out[0]
        regular = all(a == inner * b for a, b in zip(steps, inside, strict=True))
        if regular and not (channels and len(out) == 1):
            out[0] = (size * inner, inside)
        else:
            out.insert(0, (size, steps))
    out = [(1, [0] * len(views))] * (4 - len(out)) + out
    n, h, w, c = (size for size, _ in out)
    return [
        replace(v, shape=(n, h, w, c), strides=(out[0][1][i], out[1][1][i], out[2][1][i]))
        for i, v in enumerate(views)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A tensor as a strided piece of a root: strides in bytes, one per dimension of `shape`."""

    root: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    item: int

    @property
    def is_dense(self) -> bool:
        return all(
            size == 1 or stride == wanted
            for size, stride, wanted in zip(
                self.shape, self.strides, row_major(self.shape, self.item), strict=True
            )
        )

    def permuted(self, perms: tuple[int, ...]) -> "Placed":
        """The same elements with dimension perms[i] as dimension i."""
        shape = tuple(self.shape[p] for p in perms)
        strides = tuple(self.strides[p] for p in perms)
        return replace(self, shape=shape, strides=strides)


def row_major(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    """Byte strides of a dense tensor."""
    out: list[int] = []
    step = item
    for size in reversed(shape):
        out.append(step)
        step *= size
    return tuple(reversed(out))


def view_of(placed: Placed, dtype: str, shape: Shape4) -> View | None:
    """The elements of `placed` as an NHWC view of `shape`; None where they would need a copy."""
    strides = row_major(shape, placed.item) if placed.is_dense else _strided(placed, shape)
    if strides is None:
        return None
    return View(
        tensor=placed.root,
        dtype=dtype,
        shape=shape,
        strides=(strides[0], strides[1], strides[2]),
        offset=placed.offset,
    )


def _strided(placed: Placed, shape: Shape4) -> tuple[int, ...] | None:
    """Strides of a piece that is not dense under `shape`; None if its channels would not lie
    next to each other, or it cannot be seen so at all.
    """
    strides = reshaped(placed, shape)
    if strides is None or (shape[3] > 1 and strides[3] != placed.item):
        return None
    n, h, w, _ = (0 if size == 1 else step for size, step in zip(shape, strides, strict=True))
    return n, h, w, placed.item


def reshaped(placed: Placed, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of the same elements under a new shape; None where they would need a copy."""
    dims: list[tuple[int, int]] = []  # without size 1, merged where contiguous
    for size, stride in zip(placed.shape, placed.strides, strict=True):
        if size == 1:
            continue
        if dims and dims[-1][1] == size * stride:
            dims[-1] = (dims[-1][0] * size, stride)
        else:
            dims.append((size, stride))
    strides: list[int] = []
    left, step = 1, placed.item
    for size in reversed(shape):
        if size == 1:
            strides.append(step)
            continue
        if left == 1:
            left, step = dims.pop()
        if left % size:
            return None
        strides.append(step)
        left //= size
        step *= size
    return tuple(reversed(strides))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMap:
    """All roots by name: their bytes, and their region (REGION_… of `spec.program`).

    `outputs`: by graph output, the root that holds it.
    """

    nbytes: dict[str, int] = field(default_factory=dict)
    region: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
