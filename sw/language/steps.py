"""The statements of a traced kernel, in order: what each reads and writes."""

from dataclasses import dataclass, field

from sw.language.layout import Layout
from sw.language.memory import Memory, Piece
from sw.language.source import Line
from sw.language.vector import Pending


@dataclass(frozen=True, slots=True, eq=False)
class Semaphore:
    """A counter of a kernel with `sync="manual"`: `post=` adds one to it, `wait=` takes one."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """What a statement of a manual kernel waits for, and what it posts.

    `weights`: what the weights of a product wait for, `read`: posted when the sources are read.
    """

    wait: tuple[Semaphore, ...] = ()
    weights: tuple[Semaphore, ...] = ()
    post: tuple[Semaphore, ...] = ()
    read: tuple[Semaphore, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """A statement at `line`."""

    line: Line
    label: str
    sync: Sync = field(default_factory=Sync)

    @property
    def reads(self) -> tuple[Piece, ...]:
        """What it reads on chip."""
        raise NotImplementedError

    @property
    def writes(self) -> tuple[Piece, ...]:
        """What it writes on chip."""
        raise NotImplementedError

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Everything on chip that it touches, what it writes last."""
        return (*self.reads, *self.writes)

    @property
    def memories(self) -> tuple[Memory, ...]:
        return tuple(dict.fromkeys(piece.memory for piece in self.pieces))

    def __str__(self) -> str:
        return f"{self.label} ({self.line.short})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CopyStep(Step):
    """LOAD, or with `stores` STORE, of a piece of tensor `tensor` that lies at `outside`."""

    tensor: str
    outside: Layout
    chip: Piece
    stores: bool

    @property
    def reads(self) -> tuple[Piece, ...]:
        return (self.chip,) if self.stores else ()

    @property
    def writes(self) -> tuple[Piece, ...]:
        return () if self.stores else (self.chip,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProductStep(Step):
    """`x` times `w` into `acc`, in the array or beside it."""

    x: Piece
    w: Piece
    acc: Piece
    x_zero: int
    w_zero: int

    @property
    def reads(self) -> tuple[Piece, ...]:
        return (self.x, self.w)

    @property
    def writes(self) -> tuple[Piece, ...]:
        return (self.acc,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DotStep(ProductStep):
    """MATRIX: `x` […, k] times `w` [k, n] into `acc` […, n], or with `adds` added to it."""

    adds: bool

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        (k, n), rows = self.w.shape, 1
        for size in self.x.shape[:-1]:
            rows *= size
        return rows * k * n


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DepthwiseStep(ProductStep):
    """DEPTHWISE: `x` [h, w, c] by `w` [kh, kw, c] into `acc` [oh, ow, c]; padding: top, left."""

    stride: int
    pad: tuple[int, int]

    @property
    def macs(self) -> int:
        """Multiply-accumulates; those of padding count."""
        (oh, ow, c), (kh, kw, _) = self.acc.shape, self.w.shape
        return oh * ow * c * kh * kw


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorStep(Step):
    """VECTOR: what `pending` computes, written to `out`."""

    pending: Pending
    out: Piece

    @property
    def reads(self) -> tuple[Piece, ...]:
        b = self.pending.b
        return (self.pending.a, *(() if b is None else (b,)))

    @property
    def writes(self) -> tuple[Piece, ...]:
        return (self.out,)
