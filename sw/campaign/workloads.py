"""What is run: a kernel with a shape (`matmul:64x64x64`, `add`), a network, or a quantized file.

A file that `systola quantize` wrote stands for what is in it: its name is followed by a digest of
its bytes (`model.safetensors@1a2b3c4d`), so that another content is another workload.

`prepare` is all that the rest of a campaign asks of a workload: a program with its inputs and the
graph that defines its outputs. Another kind of workload is another branch here.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.names import did_you_mean
from spec.program import Image
from sw.measure.targets import build_kernel
from sw.models import kernels
from sw.models.catalog import is_built_in
from sw.models.table import NETWORKS
from sw.models.transformer_table import TRANSFORMERS
from sw.models.wide.table import WIDE
from sw.results.task import CampaignError

if TYPE_CHECKING:
    from sw.compiler.tosa.graph import Graph

FILE_ENDING = ".safetensors"

GROUPS: Mapping[str, tuple[str, ...]] = {
    "nets": tuple(NETWORKS),
    "wide": tuple(WIDE),
    "transformers": tuple(TRANSFORMERS),
}
"""The networks of the release by the name of their table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A compiled workload. macs: of the work, padding not counted."""

    image: Image
    inputs: dict[str, NDArray[Any]]
    graph: "Graph"
    macs: int

    @property
    def digest(self) -> str:
        """Of what the NPU gets: instructions and constants; 16 hex digits."""
        out = hashlib.sha256(self.image.program.tobytes())
        out.update(self.image.constants.tobytes())
        return out.hexdigest()[:16]


def network_names() -> list[str]:
    """Every network of the release."""
    return [name for names in GROUPS.values() for name in names]


def split_workloads(text: str) -> list[str]:
    """The workloads in a list with commas or blanks: `matmul:8x8x8,conv2d:h=8,w=8,digits`.

    A piece with `=` and no `:` goes on with the shape before it.
    """
    out: list[str] = []
    for word in text.split():
        pieces: list[str] = []
        for piece in filter(None, word.split(",")):
            if pieces and "=" in piece and ":" not in piece:
                pieces[-1] += f",{piece}"
            else:
                pieces.append(piece)
        out += pieces
    return out


def check_workload(text: str) -> str:
    """`text` in the form that names it: equals look equal, and defaults are left out.

    `CampaignError` if it is neither a kernel with a legal shape, nor a network, nor a file.
    """
    if text.endswith(FILE_ENDING):
        return f"{text}@{_file_digest(text)}"
    name, colon, shape = text.partition(":")
    if is_built_in(name):
        if colon:
            raise CampaignError(f"workload {text!r}: network {name} has its own shape")
        return name
    if name not in kernels.kernel_names():
        known = [*kernels.kernel_names(), *network_names()]
        raise CampaignError(
            f"workload {text!r}: no such kernel, network or file of `systola quantize` "
            f"(*{FILE_ENDING}){did_you_mean(name, known)}; there are {', '.join(known)}"
        )
    return kernel_text(name, build_kernel(name, shape or None, 0).shape)


def file_name(workload: str) -> str:
    """The name of the file that a workload is; empty if it is none."""
    name, at, _ = workload.rpartition("@")
    return name if at and name.endswith(FILE_ENDING) else ""


def _file_digest(name: str) -> str:
    try:
        return hashlib.sha256(Path(name).read_bytes()).hexdigest()[:8]
    except OSError as error:
        raise CampaignError(f"workload {name}: cannot read: {error.strerror}") from None


def kernel_text(name: str, shape: kernels.Shape) -> str:
    """The workload that a kernel with a complete shape is: its shortest form."""
    plain = kernels.parse_shape("", name)
    if {"m", "k", "n"} <= set(shape) and shape.get("batch", 1) == 1:
        short = f"{shape['m']}x{shape['k']}x{shape['n']}"
    else:
        short = ",".join(f"{k}={v}" for k, v in shape.items() if v != plain[k])
    return f"{name}:{short}" if short else name


def check_workloads(texts: Sequence[str]) -> list[str]:
    """`check_workload` of each, doubles left out; `CampaignError` if there is none."""
    if not texts:
        raise CampaignError("no workload is given, e.g. matmul:64x64x64 or digits")
    return list(dict.fromkeys(check_workload(text) for text in texts))


def prepare(text: str, config: NpuConfig, seed: int) -> Prepared:
    """Compile a workload. seed: of a kernel's data; a network takes its test input of that number.

    `CompileError` if the configuration cannot run it.
    """
    if file := file_name(text):
        if text != check_workload(file):
            raise CampaignError(f"workload {text}: the file has changed since; start again")
        return _network(file, config, seed)
    name, _, shape = text.partition(":")
    if is_built_in(name):
        return _network(name, config, seed)
    from sw.compiler import compile_graph

    work = build_kernel(name, shape or None, seed)
    image = compile_graph(work.graph, config, name=work.name)
    return Prepared(image=image, inputs=work.inputs, graph=work.graph, macs=work.macs)


def _network(name: str, config: NpuConfig, seed: int) -> Prepared:
    from sw.models.catalog import compile_model, get_model

    model = get_model(name)
    image = compile_model(model, config)
    return Prepared(
        image=image,
        inputs=model.inputs(seed % model.count),
        graph=model.imported().graph,
        macs=int(image.info.get("macs", 0)),
    )
