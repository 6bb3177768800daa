"""How far the integers of a model are from its float module: PCC and cosine, also by layer.

The integers are those of the TOSA graph in the reference interpreter; with a device, what the
device computes is compared with them bit for bit.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Interpreter, Node

from spec.config import NpuConfig
from sw.compiler.frontend.capture import Captured, capture
from sw.compiler.frontend.importing import import_graph
from sw.compiler.frontend.ports import Imported, dequantize_output, unpack_outputs
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.compiler.frontend.quantization.smoothing import Rows
from sw.compiler.frontend.threads import one_thread
from sw.compiler.tosa.interpreter import run_graph
from sw.models.catalog import pcc
from sw.models.sentences import STYLES
from sw.models.supplied import NOTHING, Supplied
from sw.models.table import NETWORKS
from sw.models.transformers import Inputs, build_transformer, pooled
from sw.models.user import calls, is_module, user_model
from sw.models.wide.table import WIDE
from sw.runtime.golden import GoldenDevice
from sw.runtime.report import compare
from sw.runtime.session import DeviceOptions, OptionError, open_device, run_image

Float = NDArray[np.float32]
Row = dict[str, Any]

SAMPLES = 32
"""Samples of a built-in network that is no transformer, unless asked otherwise."""


def cosine(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Cosine of the angle between two tensors; 0 where one of them is zero."""
    x, y = (np.asarray(v, np.float64).reshape(-1) for v in (a, b))
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A model with the calls to calibrate and to test it on; `run` is its float form.

    limit: of the samples, so many are tested unless asked otherwise.
    """

    run: Callable[..., Any]
    captured: Captured
    calibration: Sequence[Inputs]
    samples: Sequence[Inputs]
    weights: str
    limit: int


def taken(network: Measured, name: str, limit: int | None) -> Sequence[Inputs]:
    """The first samples of a network; `OptionError` for more than there are."""
    count = limit or network.limit
    if count > len(network.samples):
        raise OptionError(f"--limit {count}: {name} has {len(network.samples)} samples")
    return network.samples[:count]


def quantized(
    network: Measured,
    name: str,
    supplied: Supplied,
    config: NpuConfig | None,
    rows: Rows = "auto",
) -> Imported:
    """The network in integers, with the policy and the precision that the user asks for."""
    with one_thread():
        return import_graph(
            network.captured.graph,
            network.calibration,
            policy=supplied.policy,
            precision=supplied.precision,
            config=config,
            rows=rows,
            name=name,
        )


def measured(name: str, supplied: Supplied = NOTHING) -> Measured:
    """The built-in network or the user's model called `name`."""
    if name in NETWORKS or name in WIDE:
        return _image_network(name)
    if is_module(name):
        data = user_model(name, supplied)
        samples = calls(data.tests)
        return Measured(
            run=data.captured.graph,
            captured=data.captured,
            calibration=calls(data.calibration),
            samples=samples,
            weights="the user's",
            limit=len(samples),
        )
    network = build_transformer(name)
    count = len(network.samples) if name == "minilm" else max(network.spec.samples, 1)
    with one_thread():
        captured = capture(network.module, network.calibration[0])
    return Measured(
        run=network.module,
        captured=captured,
        calibration=network.calibration,
        samples=network.samples,
        weights=network.spec.weights,
        limit=count,
    )


def _image_network(name: str) -> Measured:
    """A built-in network that is no transformer; of pictures as many as `SAMPLES`."""
    module: Any
    samples: list[Inputs]
    if name in WIDE:
        file = importlib.import_module(f"sw.models.wide.{WIDE[name].file}")
        network = getattr(file, name)(WIDE[name].seed)
        module, calibration = network.module, network.calibration
        samples = network.more(SAMPLES) if network.more is not None else network.samples
        weights = "seeded"
    else:
        path, function = NETWORKS[name].builder
        prepared = getattr(importlib.import_module(path), function)(NETWORKS[name].seed)
        module, weights = prepared.module, prepared.weights
        calibration = [(torch.from_numpy(prepared.calibration),)]
        samples = [(part,) for part in torch.from_numpy(prepared.test).split(1)]
    with one_thread():
        captured = capture(module, samples[0])
    return Measured(
        run=captured.graph,
        captured=captured,
        calibration=[captured.flat(call) for call in calibration],
        samples=[captured.flat(call) for call in samples],
        weights=weights,
        limit=min(len(samples), SAMPLES),
    )


def measure(
    name: str,
    *,
    limit: int | None = None,
    supplied: Supplied = NOTHING,
    rows: Rows = "auto",
    config: NpuConfig | None = None,
    options: DeviceOptions | None = None,
    layers: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Row:
    """Accuracy of a built-in transformer, or of the user's model `name`, over its samples.

    pcc, cosine: of each output, the mean over samples; pcc_least: the lowest; pcc_between: of one
    sample's float output with the next one's. MiniLM only: embedding_cosine, mean and least, by
    style too, and between neighbours in floats. With `config`, samples run on the device of
    `options` (default: golden) too: see `on_device`. `OptionError` for more samples than there are.
    """
    network = measured(name, supplied)
    samples = taken(network, name, limit)
    say(f"{name}: calibrating and importing…")
    imported = quantized(network, name, supplied, config, rows)
    pairs = [(floats(network.run, s), integers(imported, s)) for s in samples]
    row: Row = {
        "model": name,
        "weights": network.weights,
        "samples": len(samples),
        "operators": len(imported.graph.ops),
        "policy": imported.policy,
        "reason": imported.reason,
        **_figures(pairs),
    }
    if name == "minilm":
        row |= _embeddings(pairs, samples)
    if layers and imported.policy == "pt2e":
        say(f"{name}: `systola diff` has the layers of policy pt2e")
    elif layers:
        row["layers"] = by_layer(network.captured, imported, samples[0])
    if config is not None:
        options = options or DeviceOptions(device="golden")
        say(f"{name}: compiling, running on {options.device}…")
        row |= on_device(imported, samples, config, options)
    return row


def floats(module: Callable[..., Any], inputs: Inputs) -> list[Float]:
    """The float module's outputs."""
    with torch.no_grad(), one_thread():
        result = module(*inputs)
    return [t.numpy() for t in torch.utils._pytree.tree_leaves(result)]


def integers(imported: Imported, inputs: Inputs) -> list[Float]:
    """The TOSA graph's outputs as floats."""
    return unpack_outputs(imported, run_graph(imported.graph, pack_inputs(imported, inputs)))


def _figures(pairs: list[tuple[list[Float], list[Float]]]) -> Row:
    outputs = range(len(pairs[0][0]))
    each = [[pcc(a[i], b[i]) for a, b in pairs] for i in outputs]
    between = [
        float(np.mean([pcc(a[0][i], b[0][i]) for a, b in pairwise(pairs)]))
        for i in outputs
        if len(pairs) > 1
    ]
    return {
        "pcc": [float(np.mean(values)) for values in each],
        "pcc_least": min(min(values) for values in each),
        "cosine": [float(np.mean([cosine(a[i], b[i]) for a, b in pairs])) for i in outputs],
        "pcc_between": between,
    }


def _embeddings(pairs: list[tuple[list[Float], list[Float]]], samples: Sequence[Inputs]) -> Row:
    floats, ours = (
        [pooled(pair[side][0], s) for pair, s in zip(pairs, samples, strict=True)]
        for side in (0, 1)
    )
    values = [float(a @ b) for a, b in zip(floats, ours, strict=True)]
    styles = {style: values[i :: len(STYLES)] for i, style in enumerate(STYLES)}
    return {
        "embedding_cosine": float(np.mean(values)),
        "embedding_least": min(values),
        "embedding_between": [float(a @ b) for a, b in pairwise(floats)],
        "styles": {k: [float(np.mean(v)), min(v)] for k, v in styles.items() if v},
    }


class _Values(Interpreter):
    """Keeps every tensor of a run, by node name."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.seen: dict[str, Float] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            self.seen[n.name] = result.detach().numpy()
        return result


def by_layer(captured: Captured, imported: Imported, inputs: Inputs) -> list[Row]:
    """PCC of every value that exists in both graphs, in order, with its format."""
    with torch.no_grad(), one_thread():
        values = _Values(captured.graph)
        values.run(*inputs)
    tensors = run_graph(imported.graph, pack_inputs(imported, inputs), keep=True)
    return [_layer(name, port, values.seen, tensors) for name, port in imported.quantized.items()
            if name in values.seen and values.seen[name].size > 1]  # fmt: skip


def _layer(
    name: str, port: Any, exact: Mapping[str, Float], tensors: Mapping[str, NDArray[Any]]
) -> Row:
    got = dequantize_output(port, tensors[port.name])
    same = np.array_equal(got, exact[name])  # constants have no correlation
    return {"node": name, "dtype": port.dtype, "pcc": 1.0 if same else pcc(got, exact[name])}


def on_device(
    imported: Imported, samples: Sequence[Inputs], config: NpuConfig, options: DeviceOptions
) -> Row:
    """The samples on the golden model, and the first on the RTL where `options` ask for it.

    device_exact: the golden model computes the interpreter's integers in all of them. Of the RTL,
    bit_exact: it computes the golden model's; elements: that were compared; cycles.
    """
    from sw.compiler import compile_graph

    image = compile_graph(imported.graph, config, name=imported.graph.name)
    golden = GoldenDevice(config, check=False)
    same, first = True, dict[str, NDArray[Any]]()
    for sample in samples:
        arrays = pack_inputs(imported, sample)
        outputs, _ = run_image(image, arrays, golden)
        exact = run_graph(imported.graph, arrays)
        same &= all(np.array_equal(outputs[n], exact[n]) for n in imported.graph.outputs)
        first = first or outputs
    row: Row = {"device": options.device, "config": config.name, "device_exact": same}
    if options.device == "rtl":
        with open_device(config, options) as device:
            outputs, result = run_image(image, pack_inputs(imported, samples[0]), device)
        found = compare(first, outputs)
        row |= {"bit_exact": found.exact, "elements": found.elements, "cycles": result.cycles}
    return row
