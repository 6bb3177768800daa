"""Models by name: what `systola run`, `verify` and every other command with a MODEL work on.

A model is a quantized graph with samples to run and PyTorch's results to compare with. Built-in
networks come from the cache (`store.py`), files from `systola quantize`; neither needs PyTorch
once it exists. A user's own module is quantized when it is named (`user.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.errors import SystolaError
from spec.names import did_you_mean
from spec.program import Image
from sw.compiler.frontend.ports import Imported, quantize_input, unpack_outputs
from sw.compiler.frontend.quantized import QuantizedModel, load_quantized
from sw.compiler.frontend.rebatch import rebatch
from sw.models.sources import is_source, refuse_source
from sw.models.store import Network, load_network
from sw.models.supplied import NOTHING, Supplied, refuse_shapes
from sw.models.table import NETWORKS, NetworkSpec
from sw.models.transformer_table import TRANSFORMERS
from sw.models.wide.table import WIDE

if TYPE_CHECKING:
    from sw.models.build import Built

Array = NDArray[Any]


class ModelError(SystolaError, ValueError):
    """An unknown model, or a request that it cannot meet."""


class Model(Protocol):
    """A quantized network with samples. Logits are its first output, float32 [samples, values].

    Every sample of a batch has the integers that it has alone: weights and scales do not depend on
    it."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> str:
        """One sample and its result, for people."""

    @property
    def info(self) -> Mapping[str, Any]:
        """Where it comes from: seed, data, weights, packages; goes into program images."""

    @property
    def count(self) -> int:
        """How many samples there are."""

    @property
    def runs(self) -> int:
        """How many of them `systola run` takes where none are asked for."""

    @property
    def batch(self) -> int:
        """The smallest batch; others are multiples of it. 1 for every built-in network."""

    @property
    def policy(self) -> str:
        """How values became integers, and why, for people; '' for a graph of a file."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What else a user may want to know about the import."""

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """The right class of each sample; None for weights that were never trained."""

    def imported(self, batch: int = 0) -> Imported:
        """The TOSA graph for `batch` samples a run (0: the smallest), with its ports."""

    def inputs(self, first: int, batch: int = 0) -> dict[str, Array]:
        """int8 inputs of samples first…first+batch−1 by port name."""

    def logits(self, outputs: Mapping[str, Array]) -> NDArray[np.float32]:
        """Float logits [batch, values] from the program's outputs."""

    @property
    def compared(self) -> tuple[str, ...]:
        """Whose results of the samples are known: `fp32`, and `pt2e` under that policy."""

    def logits_fp32(self, count: int) -> NDArray[np.float32]:
        """The float network's logits [count, values] of the first samples."""

    def logits_pt2e(self, count: int) -> NDArray[np.float32]:
        """The same from PyTorch's own int8 graph, under policy `pt2e`."""


class StoredModel:
    """A `Model` from a `QuantizedModel`."""

    def __init__(self, stored: QuantizedModel, name: str = "") -> None:
        self.stored = stored
        self._name = name or str(stored.info.get("name", "model"))
        self._batches: dict[int, Imported] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def shape(self) -> str:
        ports = self.stored.imported
        texts = [
            ", ".join("×".join(map(str, p.shape)) for p in row)
            for row in (ports.inputs, ports.outputs)
        ]
        return str(self.info.get("shape") or " → ".join(texts))

    @property
    def info(self) -> Mapping[str, Any]:
        return self.stored.info

    @property
    def batch(self) -> int:
        return int(self.info.get("batch", 1))

    @property
    def count(self) -> int:
        samples = [a for n, a in self.stored.arrays.items() if n.startswith("samples/")]
        return len(samples[0]) * self.batch if samples else 0

    @property
    def runs(self) -> int:
        return min(self.count, int(self.info.get("runs", self.count)))

    @property
    def labels(self) -> NDArray[np.int64] | None:
        return self.stored.arrays.get("labels")

    def imported(self, batch: int = 0) -> Imported:
        batch = self._checked(batch)
        if batch not in self._batches:
            self._batches[batch] = rebatch(self.stored.imported, batch // self.batch)
        return self._batches[batch]

    def _checked(self, batch: int) -> int:
        batch = batch or self.batch
        if batch < 1 or batch % self.batch:
            raise ModelError(
                f"batch {batch}: model {self.name} takes multiples of {self.batch} samples a run"
            )
        return batch

    def inputs(self, first: int, batch: int = 0) -> dict[str, Array]:
        batch = self._checked(batch)
        if first % self.batch or not 0 <= first <= self.count - batch:
            raise ModelError(
                f"samples {first}…{first + batch - 1}: {self.name} has {self.count}, "
                f"in runs of {self.batch}"
            )
        ports = self.stored.imported.inputs
        picks = slice(first // self.batch, (first + batch) // self.batch)
        runs = {p.name: self.stored.arrays[f"samples/{p.name}"][picks] for p in ports}
        if batch == self.batch:
            return {name: parts[0] for name, parts in runs.items()}
        return {name: np.concatenate(list(parts)) for name, parts in runs.items()}

    def logits(self, outputs: Mapping[str, Array]) -> NDArray[np.float32]:
        first = self.stored.imported.outputs[0]
        size = int(np.prod(first.shape)) // self.batch
        imported = self.imported(outputs[first.name].size // size)
        return unpack_outputs(imported, outputs)[0].reshape(-1, size)

    @property
    def compared(self) -> tuple[str, ...]:
        kinds = {name.partition("/")[0] for name in self.stored.arrays}
        return tuple(kind for kind in ("fp32", "pt2e") if kind in kinds)

    def logits_fp32(self, count: int) -> NDArray[np.float32]:
        return self._reference("fp32", count)

    def logits_pt2e(self, count: int) -> NDArray[np.float32]:
        return self._reference("pt2e", count)

    def _reference(self, kind: str, count: int) -> NDArray[np.float32]:
        stored = self.stored.arrays.get(f"{kind}/{self.stored.imported.outputs[0].name}")
        if stored is None:
            raise ModelError(f"model {self.name}: PyTorch's results of these inputs are not known")
        return np.asarray(stored, np.float32).reshape(self.count, -1)[:count]

    @property
    def policy(self) -> str:
        """How values became integers, and why, for people; '' for a graph of a file."""
        name, reason = (str(self.info.get(key, "")) for key in ("policy", "policy_reason"))
        return f"{name}: {reason}" if reason else name

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(map(str, self.info.get("notes", ())))


MODELS: Mapping[str, NetworkSpec] = NETWORKS
"""The built-in networks by name."""


def model_names() -> list[str]:
    """The built-in networks."""
    return list(MODELS)


def is_model_name(name: str) -> bool:
    """Whether `name` is a built-in network, a user's own module, or an existing file."""
    from sw.models.user import is_module

    return is_built_in(name) or is_module(name) or Path(name).is_file()


def is_built_in(name: str) -> bool:
    """Whether `name` is a network of one of the tables."""
    return name in NETWORKS or name in TRANSFORMERS or name in WIDE


def get_model(name: str, supplied: Supplied = NOTHING) -> StoredModel:
    """The model called `name`: a built-in network, or a file of `systola quantize`.

    A user's own module (`path.py:function`, a `.pt2` program) is quantized first. supplied: samples
    to run instead of the model's own, calibration data, the policy. Each model is loaded once.
    `ModelError` lists the built-in ones.
    """
    # Names of files mean something in this folder only.
    folder = None if is_built_in(name) and not supplied.inputs else Path.cwd()
    return _get_model(name, supplied, folder)


@lru_cache(maxsize=12)
def _get_model(name: str, supplied: Supplied, _folder: Path | None) -> StoredModel:
    from sw.models.user import is_module

    policy, inputs = supplied.policy, supplied.inputs
    precise = "" if supplied.precision.is_default else f" {supplied.precision.text}"
    if is_source(name):
        refuse_source(name)
    if is_module(name):
        return StoredModel(build_model(name, supplied).model)
    refuse_shapes(f"model {name}", supplied, "has its own shape")
    if supplied.calibration:
        raise ModelError(
            f"--calib: model {name} is quantized already; it is for models of your own"
        )
    if name in WIDE:
        from sw.models.wide.building import load_wide

        stored = load_wide(name, policy, supplied.precision)
    elif name in NETWORKS or name in TRANSFORMERS:
        network: Network = NETWORKS[name] if name in NETWORKS else TRANSFORMERS[name]
        variant = ("" if policy == "auto" else policy) + precise
        own = Supplied(policy=policy, precision=supplied.precision)
        stored = load_network(network, lambda _: build_model(name, own).model, variant=variant)
    elif Path(name).is_file():
        if policy != "auto":
            raise ModelError(f"--policy {policy}: {name} is quantized already")
        if precise:
            raise ModelError(f"--precision: {name} is quantized already")
        stored = load_quantized(Path(name))
    else:
        known = (*NETWORKS, *TRANSFORMERS, *WIDE)
        near = did_you_mean(name, known)
        raise ModelError(
            f"model {name!r}: no such model{near}; "
            f"models are {', '.join(known)}, a file that "
            "`systola quantize` wrote, path.py:function, a saved program .pt2, or an ONNX or "
            "LiteRT file"
        )
    return StoredModel(_with_inputs(stored, inputs) if inputs else stored)


def _with_inputs(stored: QuantizedModel, files: Sequence[Path]) -> QuantizedModel:
    """The model with other samples, and so without results to compare with."""
    from sw.models.samples import read_runs

    ports = stored.imported.inputs
    kinds = [port.dtype if port.scale == 0 else "float32" for port in ports]
    examples = [np.zeros(port.shape, kind) for port, kind in zip(ports, kinds, strict=True)]
    runs = read_runs(files, "--input", examples)
    arrays = {
        f"samples/{port.name}": np.stack([quantize_input(port, run[i]) for run in runs])
        for i, port in enumerate(ports)
    }
    info = {**stored.info, "data": ", ".join(map(str, files))}
    info["runs"] = len(runs) * int(stored.info.get("batch", 1))
    return replace(stored, arrays=arrays, info=info)


def build_model(name: str, supplied: Supplied = NOTHING) -> "Built":
    """A built-in network or a user's own model with its PyTorch graphs, built anew."""
    from sw.models import build, user

    if name in NETWORKS:
        return build.build_network(NETWORKS[name], supplied.policy, supplied.precision)
    if name in TRANSFORMERS:
        from sw.models.transformers import quantized_transformer

        return quantized_transformer(name, supplied.policy, supplied.precision)
    if name in WIDE:
        from sw.models.wide.building import build_wide

        return build_wide(name, supplied.policy, supplied.precision)
    if user.is_module(name):
        return user.build_user_model(name, supplied)
    raise ModelError(
        f"{name}: a quantized file has no PyTorch graph; name the network, path.py:function or "
        "file that it was made of"
    )


def compile_model(
    model: Model, config: NpuConfig, *, batch: int = 0, dump_after: Sequence[str] = ()
) -> Image:
    """The program image of `model` for `batch` samples a run (0: the smallest)."""
    from sw.compiler import compile_graph

    graph = model.imported(batch).graph
    facts = ("seed", "data", "weights", "calibration_samples", "policy", "packages")
    info = {key: model.info[key] for key in facts if key in model.info}
    return compile_graph(graph, config, name=model.name, dump_after=dump_after, info=info)


def pcc(a: Array, b: Array) -> float:
    """Pearson's correlation of all elements; 0 where one of them is constant."""
    x, y = (np.asarray(v, np.float64).reshape(-1) for v in (a, b))
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else 0.0


def pcc_between(logits: Array) -> float | None:
    """`pcc` of each sample's logits with the next one's: what a wrong result would score.

    logits: [samples, values]; None for a single sample.
    """
    return pcc(logits, np.roll(logits, 1, axis=0)) if len(logits) > 1 else None
