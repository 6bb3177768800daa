"""MATRIX and DEPTHWISE instructions of a kernel's products."""

from collections.abc import Iterator

from spec.isa import LOOPS
from sw.compiler.kernels.depthwise.geometry import Pass, kernel_passes
from sw.compiler.kernels.fused.sizes import MAX_EXTENT
from sw.compiler.program.records import ArrayLoop, Depthwise, Matrix
from sw.language.emit.issue import Issue, Places
from sw.language.errors import ApartError
from sw.language.steps import DepthwiseStep, DotStep


def dot_issue(step: DotStep, places: Places) -> Issue:
    """The MATRIX of a product; `KernelError` if its loops do not suffice."""
    x, w, acc, cfg = step.x, step.w, step.acc, places.config
    (k, n), (far, near) = w.shape, w.layout.whole_strides
    transposed = near != 1 and n > 1
    parts = -(-k // cfg.rows)
    blocks, pitch = acc.blocks(cfg.cols)
    rows = _merged(
        [
            (size, act, int(out))
            for size, act, out in zip(
                x.shape[:-1], x.layout.whole_strides, acc.layout.strides, strict=False
            )
        ]
    )
    if len(rows) > LOOPS - 2:
        raise ApartError(f"the rows of {LOOPS - 2} loops")
    record = Matrix(
        act_base=places.base(x),
        wgt_base=places.base(w),
        wgt_row=near if transposed else far,
        transposed=int(transposed),
        acc_base=places.base(acc),
        act_zp=step.x_zero,
        wgt_zp=step.w_zero,
        fold_loops=2,
        k_loops=0b10,
        accumulate=int(step.adds),
        row_loop=1,
        rows=min(cfg.rows, k),
        rows_last=k - (parts - 1) * cfg.rows,
        col_loop=0,
        cols=min(cfg.cols, n),
        cols_last=n - (blocks - 1) * cfg.cols,
        loop=[
            ArrayLoop(count=blocks, wgt=cfg.cols * near, acc=pitch),
            ArrayLoop(count=parts, act=cfg.rows, wgt=cfg.rows * far),
            *(ArrayLoop(count=size, act=act, acc=out) for size, act, out in rows),
        ],
    )
    bases = {
        "act_base": places.of(x.memory)[0],
        "wgt_base": places.of(w.memory)[0],
        "acc_base": places.context.acc,
    }
    accesses = [
        places.access(x, write=False),
        places.access(w, write=False, weights=True),
        *places.sums(acc, write=True),
    ]
    return Issue(record, bases, accesses)


def depthwise_issues(step: DepthwiseStep, places: Places) -> Iterator[Issue]:
    """A DEPTHWISE for each pass over the kernel; later ones add to the sums."""
    kernel = (step.w.shape[0], step.w.shape[1])
    for number, over in enumerate(kernel_passes(kernel, step.stride, 1, places.config.taps)):
        yield _pass(step, over, places, first=number == 0)


def _pass(step: DepthwiseStep, over: Pass, places: Places, *, first: bool) -> Issue:
    x, w, acc, cfg = step.x, step.w, step.acc, places.config
    line, pixel, _ = x.layout.whole_strides
    wgt_row, wgt_col, _ = w.layout.whole_strides
    (rows, cols, channels), (top, left) = acc.shape, step.pad
    blocks, pitch = acc.blocks(cfg.cols)
    y, left = over.kh0 - top, over.kw0 - left
    record = Depthwise(
        act_base=places.base(x) + y * line + left * pixel,
        act_row=line,
        act_col=over.step * pixel,
        wgt_base=places.base(w) + over.kh0 * wgt_row + over.kw0 * wgt_col,
        wgt_row=wgt_row,
        wgt_col=wgt_col,
        acc_base=places.base(acc),
        acc_col=1,
        y0=y,
        x0=left,
        row_step=1,
        col_step=over.step,
        height=x.shape[0],
        width=x.shape[1],
        act_zp=step.x_zero,
        wgt_zp=step.w_zero,
        kernel_rows=over.rows,
        kernel_cols=over.cols,
        stride=over.stride,
        outputs=cols,
        accumulate=int(not first),
        fold_loops=1,
        lane_loop=0,
        lanes=min(cfg.cols, channels),
        lanes_last=channels - (blocks - 1) * cfg.cols,
        loop=[
            ArrayLoop(count=blocks, act=cfg.cols, wgt=cfg.cols, acc=pitch),
            ArrayLoop(count=rows, act=step.stride * line, acc=cols, dy=step.stride),
        ],
    )
    bases = {
        "act_base": places.of(x.memory)[0],
        "wgt_base": places.of(w.memory)[0],
        "acc_base": places.context.acc,
    }
    accesses = [
        places.access(x, write=False),
        places.access(w, write=False),
        *places.sums(acc, write=True),
    ]
    return Issue(record, bases, accesses)


def _merged(rows: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Dimensions (size, stride of x, of the sums), neighbours joined where both go on."""
    out: list[tuple[int, int, int]] = []
    for size, act, acc in rows:
        if size == 1:
            continue
        joined = out and out[-1][1:] == (size * act, size * acc)
        if joined and out[-1][0] * size <= MAX_EXTENT:
            out[-1] = (out[-1][0] * size, act, acc)
        else:
            out.append((size, act, acc))
    return out
