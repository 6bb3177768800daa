"""Whole networks on real data: what `systola run` and `systola verify` do with a model's name."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.errors import SystolaError
from spec.program import Image
from sw.runtime.golden import GoldenDevice
from sw.runtime.report import Comparison, Report, compare
from sw.runtime.session import reference_comparison, run_image

if TYPE_CHECKING:
    from sw.compiler.frontend import Imported
    from sw.compiler.tosa import Graph
    from sw.runtime.device import Device

Array = NDArray[Any]


class ModelError(SystolaError, ValueError):
    """An unknown model, or a request that it cannot meet."""


class Model(Protocol):
    """A network with test data. Logits are float32 [classes] per image.

    Every batch size is captured and quantized on the same calibration data.
    """

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> str:
        """One image, for people."""

    @property
    def labels(self) -> NDArray[np.int64]: ...

    def imported(self, batch: int = 1) -> "Imported":
        """The TOSA graph for `batch` images a run, with its ports."""

    def inputs(self, first: int, batch: int = 1) -> dict[str, Array]:
        """int8 inputs of test images first…first+batch−1 by port name."""

    def logits(self, outputs: Mapping[str, Array]) -> NDArray[np.float32]:
        """Float logits [batch, classes] from the program's outputs."""

    def logits_fp32(self, count: int) -> NDArray[np.float32]:
        """The float network's logits [count, classes] of the first test images."""

    def logits_pt2e(self, count: int) -> NDArray[np.float32]:
        """The same from PyTorch's own int8 graph."""


class DigitsModel:
    """`digits`: a CNN trained on scikit-learn's handwritten digits; 360 test images."""

    CALIBRATION_IMAGES = 256

    def __init__(self) -> None:
        from sw.runtime.digits import SEED, load_data, trained

        self._data = load_data()
        self._net = trained(self._data)
        self.seed = SEED
        self._built: dict[int, tuple[Imported, Any]] = {}

    @property
    def name(self) -> str:
        return "digits"

    @property
    def shape(self) -> str:
        return "1×8×8 → 10"

    @property
    def labels(self) -> NDArray[np.int64]:
        return self._data.test_labels

    def _build(self, batch: int) -> "tuple[Imported, Any]":
        import torch

        from sw.compiler.frontend import import_module
        from sw.compiler.module import quantize_module

        if not 1 <= batch <= len(self.labels):
            raise ModelError(f"batch {batch}: must be 1…{len(self.labels)} images")
        if batch not in self._built:
            # Whole batches; an image seen twice changes no minimum or maximum.
            count = -(-self.CALIBRATION_IMAGES // batch) * batch
            picks = np.arange(count) % self.CALIBRATION_IMAGES
            images = torch.from_numpy(self._data.train_images[picks])
            quantized, _ = quantize_module(self._net, (images[:batch],), calibration=[images])
            self._built[batch] = (import_module(quantized, name=self.name), quantized)
        return self._built[batch]

    def imported(self, batch: int = 1) -> "Imported":
        return self._build(batch)[0]

    def inputs(self, first: int, batch: int = 1) -> dict[str, Array]:
        from sw.compiler.module import pack_inputs

        images = self._data.test_images[first : first + batch]
        if len(images) != batch:
            raise ModelError(f"images {first}…{first + batch - 1}: there are {len(self.labels)}")
        return pack_inputs(self.imported(batch), [images])

    def logits(self, outputs: Mapping[str, Array]) -> NDArray[np.float32]:
        from sw.compiler.module import unpack_outputs

        batch = next(iter(outputs.values())).size // 10
        return unpack_outputs(self.imported(batch), outputs)[0]

    def logits_fp32(self, count: int) -> NDArray[np.float32]:
        import torch

        with torch.no_grad():
            result: NDArray[np.float32] = self._net(
                torch.from_numpy(self._data.test_images[:count])
            ).numpy()
        return result

    def logits_pt2e(self, count: int) -> NDArray[np.float32]:
        import torch

        from sw.compiler.module import one_thread

        quantized = self._build(1)[1]
        images = torch.from_numpy(self._data.test_images[:count])
        with torch.no_grad(), one_thread():
            return np.concatenate([quantized(x).numpy() for x in images.split(1)])


MODELS: dict[str, Callable[[], Model]] = {"digits": DigitsModel}


@lru_cache(maxsize=4)
def get_model(name: str) -> Model:
    """The model called `name`, built once; `ModelError` lists the known ones."""
    if name not in MODELS:
        raise ModelError(f"model {name!r}: no such model; models are {', '.join(MODELS)}")
    return MODELS[name]()


def compile_model(
    model: Model, config: NpuConfig, *, batch: int = 1, dump_after: tuple[str, ...] = ()
) -> Image:
    """The program image of `model` for `batch` images a run."""
    from sw.compiler import compile_graph

    graph = model.imported(batch).graph
    return compile_graph(graph, config, name=model.name, dump_after=dump_after)


def run_model(model: Model, device: "Device", *, limit: int | None = None) -> Report:
    """Classify the first `limit` (default: all) test images, one program run each.

    On a device other than golden every output is compared with golden's. The report's `extra`
    has accuracy_fp32, accuracy_int8, images, pcc (device's logits against PyTorch's int8 graph)
    and pcc_between_images: a pcc means something only where that is well below 1.
    """
    count = len(model.labels) if limit is None else limit
    if not 1 <= count <= len(model.labels):
        raise ModelError(f"--limit {count}: must be 1…{len(model.labels)} images")
    image = compile_model(model, device.config)
    alone = isinstance(device, GoldenDevice)
    report = Report(
        name=model.name,
        config=device.config,
        shape=model.shape,
        device="golden" if alone else "rtl",
        macs=int(image.info.get("macs", 0)) * count,
    )
    # The program is the same for every image and hazards do not depend on data: golden looks for
    # them in the first run only.
    checked, golden = GoldenDevice(device.config), GoldenDevice(device.config, check=False)
    logits = []
    for index in range(count):
        inputs = model.inputs(index)
        outputs, result = run_image(image, inputs, golden if alone and index else device)
        _add(report, result)
        if not alone:
            expected, _ = run_image(image, inputs, golden if index else checked)
            same = compare(expected, outputs)
            report.comparison = same if report.comparison is None else report.comparison + same
        logits.append(model.logits(outputs))
    report.extra = _figures(model, np.concatenate(logits))
    return report


def verify_model(model: Model, config: NpuConfig, *, batch: int = 1, limit: int = 8) -> Report:
    """`reference_exact` of a model: golden against the TOSA reference model, `limit` test images.

    Both run `batch` images at a time (`limit` is rounded up to whole batches).
    """
    image = compile_model(model, config, batch=batch)
    graph: Graph = model.imported(batch).graph
    runs = -(-limit // batch)
    report = Report(
        name=model.name,
        config=config,
        shape=model.shape,
        device="golden",
        macs=int(image.info.get("macs", 0)) * runs,
        reference=Comparison(elements=0, mismatches=0),
    )
    checked, unchecked = GoldenDevice(config), GoldenDevice(config, check=False)
    logits = []
    for run in range(runs):
        inputs = model.inputs(run * batch, batch)
        outputs, result = run_image(image, inputs, unchecked if run else checked)
        _add(report, result)
        assert report.reference is not None
        report.reference += reference_comparison(graph, inputs, outputs)
        logits.append(model.logits(outputs))
    report.extra = _figures(model, np.concatenate(logits))
    return report


def _add(report: Report, result: Any) -> None:
    """Sum cycles, counters, traffic and time over runs."""
    if result.cycles is not None:
        report.cycles = (report.cycles or 0) + result.cycles
        report.dram_read_bytes = (report.dram_read_bytes or 0) + result.read_bytes
        report.dram_write_bytes = (report.dram_write_bytes or 0) + result.write_bytes
    report.wall_s += result.wall_s
    total = {engine: dict(row) for engine, row in report.counters.items()}
    for engine, row in result.counters.items():
        sums = total.setdefault(engine, {})
        for cause, cycles in row.items():
            sums[cause] = sums.get(cause, 0) + cycles
    report.counters = total


def _figures(model: Model, logits: NDArray[np.float32]) -> dict[str, Any]:
    count = len(logits)
    labels = model.labels[:count]
    reference = model.logits_pt2e(count)
    return {
        "images": count,
        "accuracy_fp32": float((model.logits_fp32(count).argmax(1) == labels).mean()),
        "accuracy_int8": float((logits.argmax(1) == labels).mean()),
        "pcc": pcc(logits, reference),
        "pcc_between_images": pcc(reference[0], reference[1]) if count > 1 else None,
    }


def pcc(a: Array, b: Array) -> float:
    """Pearson's correlation of all elements; 0 where one of them is constant."""
    x, y = (np.asarray(v, np.float64).reshape(-1) for v in (a, b))
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else 0.0
