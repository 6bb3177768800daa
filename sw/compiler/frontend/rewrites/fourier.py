"""Discrete Fourier transforms as products with matrices of cosines and sines.

A transform of N points is a linear layer of N by N: the array multiplies faster than butterflies
of log2(N) passes would move their operands, up to some thousand points.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

MOST_POINTS = 4096
"""Of one dimension: the matrix has their square."""

Pair = tuple[Tensor, Tensor]


def of_real(x: Tensor, dims: Sequence[int], norm: int, onesided: bool) -> Pair:
    """`_fft_r2c`: the last of `dims` is real, and half of it is kept if `onesided`."""
    points = math.prod(x.shape[d] for d in dims)
    count = x.shape[dims[-1]]
    cos, sin = _waves(count, count // 2 + 1 if onesided else count)
    re, im = _along(x, dims[-1], cos.t()), _along(x, dims[-1], -sin.t())
    for dim in reversed(dims[:-1]):
        re, im = _complex(re, im, dim, forward=True)
    return _scaled(re, norm, points), _scaled(im, norm, points)


def of_complex(re: Tensor, im: Tensor, dims: Sequence[int], norm: int, forward: bool) -> Pair:
    """`_fft_c2c`."""
    points = math.prod(re.shape[d] for d in dims)
    for dim in reversed(dims):
        re, im = _complex(re, im, dim, forward)
    return _scaled(re, norm, points), _scaled(im, norm, points)


def to_real(re: Tensor, im: Tensor, dims: Sequence[int], norm: int, size: int) -> Tensor:
    """`_fft_c2r`: the last of `dims` has the first half of `size` points, and becomes real."""
    points = size * math.prod(re.shape[d] for d in dims[:-1])
    for dim in dims[:-1]:
        re, im = _complex(re, im, dim, forward=False)
    kept = size // 2 + 1
    cos, sin = _waves(size, kept)
    # Each frequency but the first, and the last of an even size, stands for its mirror image too.
    weight = torch.full((kept, 1), 2.0)
    ends = torch.arange(kept).unsqueeze(1)
    weight = torch.where((ends == 0) | (ends * 2 == size), 1.0, weight)
    both = torch.cat([re.narrow(dims[-1], 0, kept), im.narrow(dims[-1], 0, kept)], dims[-1])
    return _scaled(_along(both, dims[-1], torch.cat([cos * weight, -sin * weight])), norm, points)


def of_frames(
    x: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Pair:  # fmt: skip
    """`stft`, already padded: a convolution of one channel, with the transform of each frame.

    Its results are [batch, frequency, frame].
    """
    if not return_complex or align_to_window:
        raise ValueError("stft that returns pairs of real numbers")
    kept = n_fft // 2 + 1 if onesided in (None, True) else n_fft
    cos, sin = _waves(n_fft, kept)
    length = n_fft if win_length is None else win_length
    shape = torch.ones(length) if window is None else window
    before = (n_fft - length) // 2
    shape = functional.pad(shape, (before, n_fft - length - before))
    shape = shape / math.sqrt(n_fft) if normalized else shape
    rows = x.unsqueeze(-2) if x.dim() == 2 else x.reshape(1, 1, -1)
    step = hop_length or n_fft // 4
    made = [functional.conv1d(rows, (w * shape).unsqueeze(1), stride=step) for w in (cos, -sin)]
    re, im = made if x.dim() == 2 else [part.squeeze(0) for part in made]
    return re, im


def _complex(re: Tensor, im: Tensor, dim: int, forward: bool) -> Pair:
    """One dimension of complex numbers: a product of both parts side by side."""
    cos, sin = _waves(re.shape[dim], re.shape[dim])
    sin = sin if forward else -sin
    both = torch.cat([re, im], dim)
    return _along(both, dim, torch.cat([cos, sin])), _along(both, dim, torch.cat([-sin, cos]))


def _waves(points: int, kept: int) -> Pair:
    """cos and sin of 2π · k · n / points: [kept, points]."""
    if points > MOST_POINTS:
        raise ValueError(f"a transform of {points} points: at most {MOST_POINTS}")
    turns = (torch.arange(kept).unsqueeze(1) * torch.arange(points)) % points
    angle = turns.double() * (2 * math.pi / points)
    return torch.cos(angle).float(), torch.sin(angle).float()


def _along(x: Tensor, dim: int, matrix: Tensor) -> Tensor:
    """x times a matrix [in, out] along a dimension."""
    return (x.movedim(dim, -1) @ matrix).movedim(-1, dim)


def _scaled(x: Tensor, norm: int, points: int) -> Tensor:
    """norm: 0 as it is, 1 by the root of the points, 2 by the points."""
    return x if not norm else x * (1 / points if norm == 2 else 1 / math.sqrt(points))
