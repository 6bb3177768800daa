"""Quantized networks in the user's build cache: the second use of one needs no PyTorch.

An entry is named by the network, its seed, the versions of the packages and the sources that decide
its integers, so that none is ever out of date.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import spec.numerics
import spec.sequences
import sw.compiler
from sw.compiler.errors import CompileError
from sw.compiler.frontend.quantized import QuantizedModel, load_quantized
from sw.models.versions import versions
from sw.runtime.simulator.cache import BuildCache
from sw.runtime.simulator.errors import BuildError

FILE = "model.safetensors"

_TOSA = ("graph.py", "sequences.py", "table.py")
"""Files of sw/compiler/tosa that decide a network's integers, beside all of the front end."""

_NETWORKS = (
    "build.py",
    "digits.py",
    "gpt2.py",
    "photographs.py",
    "prepared.py",
    "sentences.py",
    "sounds.py",
    "tiny.py",
    "transformer_table.py",
    "transformers.py",
    "vision.py",
    "weights.py",
)
"""Files beside this one that do."""


class Network(Protocol):
    """A row of a table of built-in networks."""

    @property
    def name(self) -> str: ...

    @property
    def seed(self) -> int: ...


def load_network(
    network: Network, build: Callable[[Network], QuantizedModel], *, variant: str = ""
) -> QuantizedModel:
    """The quantized network from the cache, or from `build`, which is then stored.

    variant: what else decides its integers, such as a policy.

    Processes that want the same one wait for the one that builds it. A cache that cannot be written
    costs the next start its time; a damaged entry is built again.
    """
    built: list[QuantizedModel] = []

    def store(folder: Path) -> None:
        built.append(build(network))
        built[0].save(folder / FILE)

    try:
        cache = BuildCache()
        while True:
            with cache.obtain(key(network, variant), store) as entry:
                if built:
                    return built[0]
                try:
                    return load_quantized(entry.path / FILE)
                except CompileError:
                    shutil.rmtree(entry.path)
    except (BuildError, CompileError, OSError):
        # A cache that cannot be used; what the network itself raised came before it was built.
        if built:
            return built[0]
        return build(network)


def key(network: Network, variant: str = "") -> str:
    """The name of the network's entry."""
    facts = {"name": network.name, "seed": network.seed, "packages": versions(), "variant": variant}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for path in _sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"network-{network.name}-{digest.hexdigest()[:16]}"


def _sources() -> list[Path]:
    """Every file of ours that can change a network's integers."""
    compiler, networks = Path(sw.compiler.__file__).parent, Path(__file__).parent
    return [
        *sorted((compiler / "frontend").rglob("*.py")),
        *(compiler / "tosa" / name for name in _TOSA),
        *sorted(Path(spec.sequences.__file__).parent.glob("*.py")),
        *(networks / name for name in _NETWORKS),
        Path(spec.numerics.__file__),
    ]
