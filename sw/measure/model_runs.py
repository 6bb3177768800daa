"""What `systola run` and `systola verify` do with a model: samples through devices, and figures."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.dram import IDEAL
from sw.compiler.frontend.ports import unpack_outputs
from sw.models.catalog import Model, ModelError, compile_model, pcc, pcc_between
from sw.runtime.golden import GoldenDevice
from sw.runtime.progress import Say
from sw.runtime.report import Comparison, Report, compare
from sw.runtime.session import reference_comparison, run_image
from sw.runtime.timing import Timing

if TYPE_CHECKING:
    from sw.runtime.device import Device

Array = NDArray[Any]


def chosen_count(model: Model, limit: int | None) -> int:
    """How many samples to run; `ModelError` for more than there are, or a part of a batch."""
    count = model.runs if limit is None else limit
    if not 1 <= count <= model.count:
        raise ModelError(f"--limit {count}: must be 1…{model.count} images")
    if count % model.batch:
        raise ModelError(
            f"--limit {count}: model {model.name} runs {model.batch} samples at a time"
        )
    return count


def run_model(
    model: Model,
    device: "Device",
    *,
    limit: int | None = None,
    collected: list[dict[str, Array]] | None = None,
    say: Say = lambda _: None,
    clock_mhz: float | None = None,
    memory: str = IDEAL,
) -> Report:
    """Run the first `limit` (default: `model.runs`) samples, one program run per smallest batch.

    On a device other than golden every output is compared with golden's. `collected` gets every
    run's outputs, `say` hears what goes on. The report's `extra` has what `figures` says.
    """
    count = chosen_count(model, limit)
    say(f"{model.name}: compiling for {device.config.name}…")
    image = compile_model(model, device.config)
    alone = isinstance(device, GoldenDevice)
    report = Report(
        name=model.name,
        config=device.config,
        shape=model.shape,
        device="golden" if alone else "rtl",
        macs=int(image.info.get("macs", 0)) * (count // model.batch),
        timing=Timing.of(
            image,
            clock_mhz=clock_mhz,
            runs=count // model.batch,
            samples=count,
            memory=memory,
        ),
    )
    # The program is the same for every sample and hazards do not depend on data: golden looks for
    # them in the first run only.
    checked, golden = GoldenDevice(device.config), GoldenDevice(device.config, check=False)
    logits = []
    for first in range(0, count, model.batch):
        say(f"{model.name}: sample {first + 1} of {count} on {report.device}…")
        inputs = model.inputs(first)
        outputs, result = run_image(image, inputs, golden if alone and first else device)
        report.add(result)
        if not alone:
            expected, _ = run_image(image, inputs, golden if first else checked)
            same = compare(expected, outputs)
            report.comparison = same if report.comparison is None else report.comparison + same
        logits.append(model.logits(outputs))
        if collected is not None:
            collected.append(outputs)
    report.extra = figures(model, np.concatenate(logits))
    report.policy, report.notes = model.policy, (*model.notes, *image.info.get("striped", ()))
    return report


def float_outputs(model: Model, runs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Every output over all runs as float32 [samples, …], by port name."""
    ports = model.imported().outputs
    columns = zip(*(unpack_outputs(model.imported(), outputs) for outputs in runs), strict=True)
    return {port.name: np.concatenate(c) for port, c in zip(ports, columns, strict=True)}


def verify_model(model: Model, config: NpuConfig, *, batch: int = 0, limit: int = 8) -> Report:
    """`reference_exact` of a model: golden against the TOSA reference model, `limit` samples.

    Both run `batch` samples at a time (0: the smallest; `limit` is rounded to whole batches).
    """
    batch = batch or model.batch
    image = compile_model(model, config, batch=batch)
    graph = model.imported(batch).graph
    runs = max(1, min(-(-limit // batch), model.count // batch))
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
        report.add(result)
        assert report.reference is not None
        report.reference += reference_comparison(graph, inputs, outputs)
        logits.append(model.logits(outputs))
    report.extra = figures(model, np.concatenate(logits))
    return report


def figures(model: Model, logits: NDArray[np.float32]) -> dict[str, Any]:
    """What a device's logits of the first samples are worth.

    images; accuracy_fp32 and accuracy_int8 where the right classes are known; pcc and pcc_fp32
    (against PyTorch's int8 graph under policy `pt2e`, and the float module); pcc_between_images: a
    pcc means something only where that is well below 1. Without PyTorch's results only images.
    """
    count = len(logits)
    found: dict[str, Any] = {"images": count}
    if not model.compared:
        return found
    fp32, quantized = model.logits_fp32(count), "pt2e" in model.compared
    reference = model.logits_pt2e(count) if quantized else fp32
    if model.labels is not None:
        labels = model.labels[:count]
        found["accuracy_fp32"] = float((fp32.argmax(1) == labels).mean())
        found["accuracy_int8"] = float((logits.argmax(1) == labels).mean())
    return {
        **found,
        **({"pcc": pcc(logits, reference)} if quantized else {}),
        "pcc_fp32": pcc(logits, fp32),
        "pcc_between_images": pcc_between(reference),
    }
