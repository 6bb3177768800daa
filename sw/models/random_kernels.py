"""Random kernel workloads: sizes of 1, and below, at and just above those of some array."""

import numpy as np

from spec.config import NpuConfig
from sw.models.kernels import KernelError, Shape, kernel, kernel_names, parse_shape

_SIZES = (1, 2, 3, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 31, 33, 64, 65)
_MOST_WORK = 400_000  # MACs or elements of a random shape: a second on the smallest array


NEEDS = {"resize": "indexed_dma"}
"""Kernels that some hardware cannot compute: the flag of `NpuConfig` that they need."""


def random_case(rng: np.random.Generator, config: NpuConfig | None = None) -> tuple[str, Shape]:
    """A kernel and a shape of it that can exist; the same for the same generator.

    config: hardware that must be able to compute it.
    """
    name = str(rng.choice(kernel_names()))
    while config is not None and name in NEEDS and not getattr(config, NEEDS[name]):
        name = str(rng.choice(kernel_names()))
    while True:
        shape = {key: _dimension(rng, key) for key in parse_shape("", name)}
        if shape.get("in_bits") == shape.get("out_bits") == 32:
            continue
        try:
            work = kernel(name, shape)
        except KernelError:  # no window fits, or only ones that lie in the padding
            continue
        if work.macs <= _MOST_WORK:
            return name, shape


def _dimension(rng: np.random.Generator, key: str) -> int:
    if key in ("batch", "multiplier") or (key == "n" and rng.random() < 0.5):
        return int(rng.integers(1, 4))
    if key in ("factor", "groups"):
        return int(rng.integers(1, 5))
    if key.startswith("pad"):
        return int(rng.integers(0, 4))
    if key.startswith(("stride", "dilation", "kh", "kw")):
        return int(rng.integers(1, 5))
    if key.endswith("_bits"):
        return int(rng.choice([8, 16, 32]))
    if key == "per_channel":
        return int(rng.integers(0, 2))
    return int(rng.choice(_SIZES[:13] if key in "hw" else _SIZES))
