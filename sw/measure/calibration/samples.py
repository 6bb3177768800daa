"""What is run: legal configurations drawn at random, and workloads of many kinds."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spec.config import ConfigError, NpuConfig, preset
from spec.names import did_you_mean
from sw.runtime.session import OptionError

_BASES = ("tiny", "small", "default", "rect", "odd")
_CHOICES: dict[str, tuple[Any, ...]] = {
    "rows": (4, 5, 6, 8, 10, 12, 16, 20),
    "cols": (4, 6, 8, 12, 16, 24),
    "spad_kib": (32, 64, 128, 256),
    "acc_kib": (8, 12, 16, 24, 32, 48, 64, 96),
    "bus_bytes": (8, 16, 32),
    "banks": (4, 8, 16),
    "param_entries": (16, 32, 64),
    "queue_depth": (4, 8, 16),
    "outstanding": (16, 32, 64, 128),
    "max_burst": (4, 8, 16, 32),
    "taps": (1, 2, 3, 4, 5),
    "vector_contexts": (2, 4, 8),
    "vector_lanes": (0, 1, 2, 4),
    "depthwise": (True, True, False),
    "transposed_weights": (True, True, False),
    "indexed_dma": (True, True, False),
    "engine_counters": (True, False),
    "axi_addr_bits": (36, 40, 48),
}
_CHANGED = 0.4
"""How likely each field is drawn anew; the others are those of a preset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A kernel with a shape, or a network (no shape)."""

    name: str
    target: str
    shape: str | None = None


_CONV = "n=1,h={0},w={0},c={1},oc={2},k={3},s={4},p={5}"
WORKLOADS: tuple[Workload, ...] = (
    Workload(name="matmul", target="matmul", shape="96x160x72"),
    Workload(name="long_reduction", target="fully_connected", shape="m=1,k=2048,n=48"),
    Workload(name="conv_3x3", target="conv2d", shape=_CONV.format(20, 24, 40, 3, 1, 1)),
    Workload(name="conv_first", target="conv2d", shape=_CONV.format(64, 3, 24, 3, 2, 1)),
    Workload(name="conv_1x1", target="conv2d", shape=_CONV.format(14, 96, 64, 1, 1, 0)),
    Workload(name="depthwise", target="depthwise_conv2d", shape="h=28,w=28,c=40,k=3,s=1,p=1"),
    Workload(name="max_pool", target="max_pool2d", shape="h=32,w=32,c=32,k=2,s=2"),
    Workload(name="resize", target="resize", shape="h=16,w=16,c=32,factor=2"),
    Workload(name="add", target="add", shape="h=32,w=32,c=40"),
    Workload(name="channel_shuffle", target="channel_shuffle", shape="h=14,w=14,c=24,groups=3"),
    Workload(name="ad", target="ad"),
    Workload(name="ds_cnn", target="ds_cnn"),
    Workload(name="resnet8", target="resnet8"),
    Workload(name="temporal", target="temporal"),
)
"""Kernels of every family, and networks of which the smallest array simulates one in a minute."""


def configurations(count: int, seed: int) -> list[NpuConfig]:
    """`count` different legal configurations; the first ones are the same for every count."""
    rng = random.Random(seed)
    found: dict[str, NpuConfig] = {}
    while len(found) < count:
        base = preset(rng.choice(_BASES))
        drawn = {k: rng.choice(v) for k, v in _CHOICES.items() if rng.random() < _CHANGED}
        changed = {k: str(v).lower() for k, v in drawn.items() if v != getattr(base, k)}
        try:
            config = base.with_settings(changed)
        except ConfigError:
            continue
        found.setdefault(config.digest_hex, config)
    return list(found.values())


def chosen(names: Sequence[str]) -> list[Workload]:
    """The workloads with these names, all of them if there are none; `OptionError` for others."""
    known = {work.name: work for work in WORKLOADS}
    for name in names:
        if name not in known:
            near = did_you_mean(name, known)
            raise OptionError(f"--only {name}: must be one of {', '.join(known)}{near}")
    return [known[name] for name in names] if names else list(WORKLOADS)
