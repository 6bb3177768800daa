"""Windows of convolutions and pools that fit exactly: TOSA allows no rest behind the last one."""

from collections.abc import Sequence

Pads = Sequence[tuple[int, int]]
"""(before, behind) of rows and of columns."""


def pool_pads(
    extent: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil: bool,
) -> list[tuple[int, int]]:
    """Padding of a pool of PyTorch; with ceil_mode, what the last window needs more behind."""
    pads = []
    for size, window, step, pad in zip(extent, kernel, stride, padding, strict=True):
        steps, rest = divmod(size + 2 * pad - window, step)
        # PyTorch drops a window that would start in the padding behind the input.
        inside = (steps + 1) * step < size + pad
        pads.append((pad, pad + (step - rest if ceil and rest and inside else 0)))
    return pads


def fit_windows(
    extent: Sequence[int], reach: Sequence[int], stride: Sequence[int], pads: Pads
) -> tuple[list[int], tuple[int, ...]]:
    """(rows and columns to keep, TOSA's pad) such that the last window leaves nothing over.

    A window reaches over `reach` elements, dilation included. What is left over is cut from the
    padding behind, then from the input.
    """
    kept, pad = [], []
    for size, window, step, (before, behind) in zip(extent, reach, stride, pads, strict=True):
        behind -= (size + before + behind - window) % step
        kept.append(size + min(behind, 0))
        pad += [before, max(behind, 0)]
    return kept, tuple(pad)
