"""Products: the array (`dot`) and the depthwise engine (`depthwise`), into the accumulator."""

from collections.abc import Sequence

from spec.isa import OPERAND_HIGH, OPERAND_LOW
from sw.language.memory import Piece
from sw.language.source import Line, caller
from sw.language.steps import DepthwiseStep, DotStep, Semaphore, Sync
from sw.language.trace import Trace
from sw.language.values import Tile, Values, write


def dot(
    x: Values,
    w: Tile,
    acc: Tile | None = None,
    *,
    x_zero: int = 0,
    w_zero: int = 0,
    buffers: int | None = None,
    at: int | None = None,
    wait: Sequence[Semaphore] = (),
    wait_weights: Sequence[Semaphore] = (),
    post: Sequence[Semaphore] = (),
    read: Sequence[Semaphore] = (),
) -> Tile:
    """Σ_k (x[…, k] − x_zero)·(w[k, n] − w_zero) as int32 […, n], in the accumulator.

    `x`, `w`: int8; `w` may be the transpose (`T`) of a tile. `acc`: sums that this adds to; then
    the result is that tile. `buffers`, `at`: see `load`, in vectors of the accumulator.
    `wait_weights`: semaphores that the reading of weights takes from, where `wait` holds back the
    rest. `post`, `read`: semaphores that it adds to when the sums are there, when x has been read.
    """
    trace, line = w.trace, caller()
    source = _source(x, trace, line, "x")
    weights = _source(w, trace, line, "w")
    n = _columns(source, weights, trace, line)
    _check_zero("x_zero", x_zero, trace, line)
    _check_zero("w_zero", w_zero, trace, line)
    shape = (*source.shape[:-1], n)
    label = f"dot {list(source.shape)}·{list(weights.shape)}"
    if acc is None:
        out = trace.accumulator(shape, "sums", line, buffers, at)
    else:
        out = acc.piece
        if not out.in_acc or out.shape != shape:
            raise trace.error(
                f"dot: acc is {out.dtype}{list(out.shape)}, the product int32{list(shape)} in the "
                "accumulator",
                line,
                hint="pass what another dot of this shape returned",
            )
    sync = Sync(wait=tuple(wait), weights=tuple(wait_weights), post=tuple(post), read=tuple(read))
    trace.add(
        DotStep(
            line=line,
            label=label,
            sync=sync,
            x=source,
            w=weights,
            acc=out,
            adds=acc is not None,
            x_zero=x_zero,
            w_zero=w_zero,
        )
    )
    return Tile(trace, out)


def depthwise(
    x: Tile,
    w: Tile,
    *,
    stride: int = 1,
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    x_zero: int = 0,
    w_zero: int = 0,
    buffers: int | None = None,
    at: int | None = None,
    wait: Sequence[Semaphore] = (),
    post: Sequence[Semaphore] = (),
    read: Sequence[Semaphore] = (),
) -> Tile:
    """Each channel of x [h, w, c] convolved with its own of w [kh, kw, c]: int32 [oh, ow, c].

    `padding`: rows above and below, columns left and right, which count as `x_zero`. Needs the
    depthwise engine. The other arguments are those of `dot`.
    """
    trace, line = x.trace, caller()
    if not trace.config.depthwise:
        raise trace.error(
            f"depthwise: configuration {trace.config.name} has no depthwise engine",
            line,
            hint="choose a configuration that has it (--set depthwise=true)",
        )
    source, weights = _source(x, trace, line, "x"), _source(w, trace, line, "w")
    if len(source.shape) != 3 or len(weights.shape) != 3 or source.shape[2] != weights.shape[2]:
        raise trace.error(
            f"depthwise: x {list(source.shape)} and w {list(weights.shape)}: must be [h, w, c] and "
            "[kh, kw, c] with the same c",
            line,
        )
    (h, width, c), (kh, kw, _) = source.shape, weights.shape
    top, bottom, left, right = padding
    rows = (h + top + bottom - kh) // stride + 1 if stride > 0 else 0
    columns = (width + left + right - kw) // stride + 1 if stride > 0 else 0
    if rows < 1 or columns < 1 or min(padding) < 0:
        raise trace.error(
            f"depthwise: x {list(source.shape)} with padding {list(padding)} is smaller than the "
            f"kernel {kh}x{kw}, or stride {stride} is not positive",
            line,
        )
    _check_zero("x_zero", x_zero, trace, line)
    _check_zero("w_zero", w_zero, trace, line)
    out = trace.accumulator((rows, columns, c), "sums", line, buffers, at)
    trace.add(
        DepthwiseStep(
            line=line,
            label=f"depthwise {list(source.shape)}·{list(weights.shape)}",
            sync=Sync(wait=tuple(wait), post=tuple(post), read=tuple(read)),
            x=source,
            w=weights,
            acc=out,
            stride=stride,
            pad=(top, left),
            x_zero=x_zero,
            w_zero=w_zero,
        )
    )
    return Tile(trace, out)


def _source(values: Values, trace: Trace, line: Line, name: str) -> Piece:
    """An operand of a product: int8 in the scratchpad."""
    if values.dtype != "int8":
        raise trace.error(
            f"{name} is {values.dtype}{list(values.shape)}: a product takes int8",
            line,
            hint="requantize(scale) makes int8",
        )
    if isinstance(values, Tile):
        return values.piece
    return write(values, "scratchpad").piece


def _columns(x: Piece, w: Piece, trace: Trace, line: Line) -> int:
    """Columns of a product whose operands fit together."""
    if len(w.shape) != 2 or len(x.shape) < 1 or x.shape[-1] != w.shape[0]:
        raise trace.error(
            f"dot: x {list(x.shape)} and w {list(w.shape)}: must be [..., k] and [k, n] with the "
            "same k",
            line,
            hint="w.T exchanges the dimensions of a tile",
        )
    if x.layout.strides[-1] != 1 or 1 not in w.layout.strides:
        raise trace.error(
            "dot: elements along k of x, and of w in rows or columns, must be neighbours",
            line,
            hint="load what is not transposed",
        )
    if w.layout.strides[-1] != 1 and not trace.config.transposed_weights:
        raise trace.error(
            f"dot: w is transposed; configuration {trace.config.name} has transposed_weights=False",
            line,
            hint="load w as [k, n], or choose a configuration that has it",
        )
    return w.shape[1]


def _check_zero(name: str, value: int, trace: Trace, line: Line) -> None:
    # Operands minus the zero point must fit in the multiplier's 9 bits.
    low, high = 127 - OPERAND_HIGH, -128 - OPERAND_LOW
    if not low <= value <= high:
        raise trace.error(f"{name}={value}: must lie in {low}…{high}", line)
