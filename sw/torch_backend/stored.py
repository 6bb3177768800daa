"""Compiled parts on disk, so that the next process starts without compiling.

An entry of the build cache is named by everything that decides the integers of a part: its graph,
weights, calibration samples, configuration, options, sources and packages. None is ever out of
date. A damaged entry is built again; a cache that cannot be written costs the next start its time.
"""

import functools
import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

import spec
import sw.compiler
from spec.program import Image, ImageError, load_image
from sw.compiler.errors import CompileError
from sw.compiler.frontend.ports import Imported
from sw.compiler.frontend.quantization.policy import Resolved
from sw.compiler.frontend.quantized import QuantizedModel, load_quantized
from sw.runtime.simulator.cache import BuildCache
from sw.runtime.simulator.errors import BuildError
from sw.torch_backend.options import Options

PREFIX = "torch"
"""What the names of these entries begin with."""

_GRAPH, _IMAGE, _DIGEST = "graph.safetensors", "program.safetensors", "digest"
_PACKAGES = ("torch", "torchao", "numpy")

_NO_INTEGERS = (
    *("device", "latency", "stall", "seed", "clock_mhz", "memory"),
    *("calibration", "recalibrate", "watch_results", "variants"),
    *("report", "fallback", "verify", "check", "cache", "progress"),
    *("config", "policy"),
)
"""Options that are not in the name as they are: they decide no integers, or in another form.

Of the calibration the samples are in it, of the configuration all fields, of the policy its choice.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A part as integers: the TOSA graph with its ports, and the program for the NPU."""

    imported: Imported
    image: Image

    @property
    def digest(self) -> str:
        """Of the program and its constants: equal digests compute equal integers."""
        out = hashlib.sha256(self.image.program.tobytes())
        out.update(self.image.constants.tobytes())
        return out.hexdigest()[:16]


def obtain(key: str, build: Callable[[], Compiled]) -> tuple[Compiled, bool]:
    """(The part of that key, whether it comes from the cache); what `build` makes is stored.

    Processes that want the same part wait for the one that compiles it. Errors of `build` pass.
    """
    made: list[Compiled] = []
    failed: list[Exception] = []

    def store(folder: Path) -> None:
        try:
            made.append(build())
        except Exception as error:
            failed.append(error)
            raise
        _save(made[0], folder)

    try:
        cache = BuildCache()
        while True:
            with cache.obtain(key, store) as entry:
                if made:
                    return made[0], False
                try:
                    return _load(entry.path), True
                except (CompileError, ImageError, OSError):
                    shutil.rmtree(entry.path, ignore_errors=True)
    except (BuildError, CompileError, OSError):
        if failed:
            raise
        return (made[0] if made else build()), False  # it could not be written


def _save(compiled: Compiled, folder: Path) -> None:
    QuantizedModel(imported=compiled.imported).save(folder / _GRAPH)
    compiled.image.save(folder / _IMAGE)
    (folder / _DIGEST).write_text(_files_digest(folder))


def _load(folder: Path) -> Compiled:
    """`CompileError`, `ImageError` or OSError for an entry that is not what was stored."""
    if (folder / _DIGEST).read_text() != _files_digest(folder):
        raise CompileError(f"{folder}: damaged")
    return Compiled(
        imported=load_quantized(folder / _GRAPH).imported, image=load_image(folder / _IMAGE)
    )


def _files_digest(folder: Path) -> str:
    out = hashlib.sha256()
    for name in (_GRAPH, _IMAGE):
        with (folder / name).open("rb") as file:
            out.update(hashlib.file_digest(file, "sha256").digest())
    return out.hexdigest()


# Names of entries ---------------------------------------------------------------------------------


def part_key(
    module: GraphModule,
    samples: Sequence[Sequence[torch.Tensor]],
    options: Options,
    policy: Resolved,
    title: str,
) -> str:
    """The name of the entry of a part. policy: the one that was chosen for the whole graph."""
    chosen = {
        f.name: repr(getattr(options, f.name))
        for f in fields(options)
        if f.name not in _NO_INTEGERS
    }
    facts = {
        "title": title,
        "policy": policy,
        "config": options.config.to_dict(),
        "options": chosen,
        "sources": _sources_digest(),
        "packages": {name: version(name) for name in _PACKAGES},
        "graph": graph_text(module),
    }
    out = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode())
    for node in module.graph.nodes:
        if node.op == "get_attr":
            _update(out, _attribute(module, node))
    for sample in samples:
        for tensor in sample:
            _update(out, tensor)
    return f"{PREFIX}-{out.hexdigest()[:32]}"


def graph_text(module: GraphModule) -> str:
    """The operators of a graph with arguments, shapes and types; the same in every process."""
    lines = []
    for node in module.graph.nodes:
        arguments = map_arg((node.args, node.kwargs), lambda n: _Name(n.name))
        target = str(node.target) if not callable(node.target) else _callable_name(node.target)
        lines.append(f"{node.op} {node.name} {target} {arguments!r} {_value_text(node)}")
    return "\n".join(lines)


class _Name(str):
    """A node's name as an argument: no string of the user looks like it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"%{self}"


def _callable_name(target: Any) -> str:
    name = str(target)
    return getattr(target, "__qualname__", name) if name.startswith("<") else name


def _value_text(node: Node) -> str:
    value = node.meta.get("val")
    values = value if isinstance(value, list | tuple) else [value]
    return " ".join(
        f"{t.dtype}{list(t.shape)}{list(t.stride())}" if isinstance(t, torch.Tensor) else str(t)
        for t in values
    )


def _attribute(module: GraphModule, node: Node) -> Any:
    value: Any = module
    for name in str(node.target).split("."):
        value = getattr(value, name)
    return value


def _update(out: Any, tensor: Any) -> None:
    """Hash a tensor: its type, its shape, its bytes."""
    if not isinstance(tensor, torch.Tensor):
        out.update(repr(tensor).encode())
        return
    plain = tensor.detach().contiguous()
    out.update(f"{plain.dtype}{list(plain.shape)}\0".encode())
    out.update(plain.reshape(-1).view(torch.uint8).numpy().data if plain.numel() else b"")


@functools.cache
def _sources_digest() -> str:
    """Of every file of ours that can change what a part is compiled to."""
    folders = (spec.__file__, sw.compiler.__file__, __file__)
    out = hashlib.sha256()
    for folder in (Path(str(f)).parent for f in folders):
        for path in sorted(folder.rglob("*.py")):
            out.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return out.hexdigest()
