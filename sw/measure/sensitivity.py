"""`systola sensitivity`: what each layer costs a model in accuracy, and what the model reaches."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from spec.config import NpuConfig
from sw.compiler.frontend.quantization.sensitivity import losses
from sw.compiler.frontend.threads import one_thread
from sw.measure.accuracy import floats, integers, measured, quantized, taken
from sw.models.catalog import pcc
from sw.models.supplied import NOTHING, Supplied

Row = dict[str, Any]

LAYER_SAMPLES = 4
"""Samples that the layers are measured on, unless asked otherwise."""


def sensitivity(
    name: str,
    *,
    limit: int | None = None,
    supplied: Supplied = NOTHING,
    config: NpuConfig | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Row:
    """The losses of a model's layers, largest first, and its PCC with all of them in integers.

    limit: of the samples (default: `LAYER_SAMPLES` for the layers, all for the whole model).
    config: whose cycles are predicted (default: `default`).
    """
    from sw.compiler.pipeline import run_stages

    network = measured(name, supplied)
    samples = taken(network, name, limit)
    say(f"{name}: calibrating and importing…")
    config = config or NpuConfig()
    imported = quantized(network, name, supplied, config)
    with one_thread():
        say(f"{name}: one layer in integers at a time…")
        few = samples[: limit or LAYER_SAMPLES]
        found = losses(network.captured.graph, imported.layers, few)
        each = [pcc(floats(network.run, s)[0], integers(imported, s)[0]) for s in samples]
    return {
        "model": name,
        "weights": network.weights,
        "policy": imported.policy,
        "reason": imported.reason,
        "calibration": imported.samples,
        "samples": len(samples),
        "layer_samples": len(few),
        "pcc": float(np.mean(each)),
        "pcc_least": min(each),
        "cycles": int(sum(run_stages(imported.graph, config).predicted)),
        "config": config.name,
        "lost": sum(1 - loss.pcc for loss in found),
        "layers": [asdict(loss) for loss in sorted(found, key=lambda loss: loss.pcc)],
    }
