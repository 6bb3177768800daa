"""What `systola bench` measures: suites of kernels, networks and modules, or what is named."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spec.config import NpuConfig
from spec.names import did_you_mean
from sw.measure.modules import find_modules
from sw.models.wide.table import WIDE
from sw.runtime.session import OptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One figure to take: `target` is a kernel with `shape`, a network, a file or a module.

    settings: fields in which its hardware differs from the configuration that the suite is run on.
    marks: facts of the row that tell whether a stored one is still of this entry. with_cpu: a
    module whose operators that the NPU lacks run on the CPU.
    """

    name: str
    target: str
    shape: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    with_cpu: bool = False

    def on(self, config: NpuConfig) -> NpuConfig:
        """The hardware that it is measured on; `ConfigError` if its settings do not fit."""
        return config.with_settings(dict(self.settings))


_WINDOW = "k=3,s=2,p=1"
SUITES: Mapping[str, tuple[Entry, ...]] = {
    "micro": (
        Entry(name="matmul_128x256x256", target="matmul", shape="128x256x256"),
        Entry(name="matmul_64x64x64", target="matmul", shape="64x64x64"),
        Entry(
            name="conv_first_4x224",
            target="conv2d",
            shape=f"n=4,h=224,w=224,c=3,oc=32,{_WINDOW}",
        ),
        Entry(
            name="depthwise_3x112x17",
            target="depthwise_conv2d",
            shape=f"n=3,h=112,w=112,c=17,{_WINDOW}",
        ),
        Entry(name="fc_9216x64", target="conv2d", shape="h=1,w=1,c=9216,oc=64,k=1,p=0"),
        Entry(
            name="fc_1024_bus32",
            target="fully_connected",
            shape="1x1024x1024",
            settings={"bus_bytes": "32"},
        ),
        Entry(name="resize_2x", target="resize", shape="h=32,w=32,c=64,factor=2"),
        Entry(
            name="transpose_shuffle",
            target="channel_shuffle",
            shape="h=56,w=56,c=80,groups=3",
        ),
    ),
    "nets": tuple(
        Entry(name=name, target=name)
        for name in (
            *("resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2"),
            *("resnet8", "ds_cnn", "vww", "ad"),
        )
    ),
    "transformers": (
        Entry(name="bert_base_s128", target="bert"),
        Entry(name="gpt2_prefill_s32", target="gpt2"),
        Entry(name="gpt2_decode_s16", target="gpt2_decode"),
        Entry(name="minilm_s64", target="minilm"),
    ),
    "wide": tuple(Entry(name=name, target=name) for name in WIDE),
}


MODULES = "modules"
"""The suite of the modules in examples/modules/."""

DEFAULT = "micro"
NAMED = "models"
"""Instead of a suite's name, where kernels, networks or files are named."""


def _suite(suite: str) -> Sequence[Entry]:
    if suite in SUITES:
        return SUITES[suite]
    if suite != MODULES:
        known = (*SUITES, MODULES)
        near = did_you_mean(suite, known)
        raise OptionError(f"--suite {suite}: must be one of {', '.join(known)}{near}")
    return [
        Entry(
            name=found.name,
            target=found.target,
            marks={"special": found.special, "file_digest": found.digest},
            with_cpu=True,
        )
        for found in find_modules()
    ]


def entries(suite: str, only: Sequence[str] = ()) -> list[Entry]:
    """The entries of a suite, or those of them called `only`; `OptionError` lists the names."""
    known = _suite(suite)
    names = [entry.name for entry in known]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise OptionError(
            f"--only {','.join(unknown)}: not in suite {suite}, which has {', '.join(names)}"
            f"{did_you_mean(unknown[0], names)}"
        )
    return [entry for entry in known if not only or entry.name in only]


def named(targets: Sequence[str]) -> list[Entry]:
    """An entry for each kernel, network or file; `TargetError` for what is none."""
    from sw.measure.targets import is_model

    return [
        Entry(name=target, target=target, shape=None if is_model(target, None) else "")
        for target in dict.fromkeys(targets)
    ]


def chosen(targets: Sequence[str], suite: str, only: Sequence[str]) -> tuple[str, list[Entry]]:
    """(title, entries) of what is named, else of a suite; `OptionError` for a choice of both."""
    if not targets:
        suite = suite or DEFAULT
        return suite, entries(suite, only)
    if suite or only:
        option = f"--suite {suite}" if suite else f"--only {','.join(only)}"
        raise OptionError(f"{option}: chooses from a suite; leave it out, or what is named")
    return NAMED, named(targets)
