"""`systola validate`: is a network on the NPU still the network that PyTorch quantized?

Three questions, none of which answers another: the whole network, free-running, over many samples
(correlation and top-1 against PyTorch's int8 graph and the float module); every operator on
PyTorch's own integers; the golden model against the TOSA reference model on the compiler's graph.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from sw.measure.diff import LayerDiff, usual_tolerance
from sw.measure.model_runs import chosen_count, verify_model
from sw.models.catalog import Model, StoredModel, build_model, compile_model, pcc, pcc_between
from sw.models.supplied import NOTHING, Supplied
from sw.runtime.golden import GoldenDevice
from sw.runtime.session import DeviceOptions, run_image

if TYPE_CHECKING:
    from sw.models.build import Built

Say = Callable[[str], None]
Row = dict[str, Any]

MIN_PCC = 0.999
"""Of the NPU's outputs with those of PyTorch's int8 graph."""

MIN_PCC_FLOAT = 0.99
"""Of the NPU's outputs with the float module's, under policy `wide`."""

MAX_PCC_BETWEEN = 0.99
"""Of one sample's outputs with another's: above, a high PCC says nothing."""


def validate(
    name: str,
    config: NpuConfig,
    *,
    limit: int | None = None,
    reference: int = 1,
    supplied: Supplied = NOTHING,
    say: Say = lambda _: None,
) -> Row:
    """Every figure of one network on the golden model of `config`, as one JSON-able record.

    limit: samples of the free run (all). reference: samples on the TOSA reference model. The
    network is built anew, with its PyTorch graphs; `say` hears what is going on.
    """
    say(f"{name}: quantizing…")
    built = build_model(name, supplied)
    model = StoredModel(built.model)
    count = chosen_count(model, limit or model.count)
    say(f"{name}: {count} samples on the golden model…")
    row: Row = {
        "name": name,
        "config": config.name,
        "config_digest": config.digest_hex,
        "shape": model.shape,
        "seed": model.info.get("seed"),
        "data": model.info.get("data", ""),
        "packages": model.info.get("packages", {}),
        **free_run(model, config, count),
    }
    say(f"{name}: every operator on PyTorch's integers…")
    row |= fed_run(built, config)
    say(f"{name}: TOSA reference model…")
    report = verify_model(model, config, limit=reference)
    assert report.reference is not None
    row["reference_exact"] = report.reference.exact
    row["reference_elements"] = report.reference.elements
    return row


def free_run(model: Model, config: NpuConfig, count: int) -> Row:
    """Outputs of whole runs beside PyTorch's, and the top-1 class where outputs are scores."""
    image = compile_model(model, config)
    logits = []
    for first in range(0, count, model.batch):
        device = GoldenDevice(config, check=first == 0)
        logits.append(model.logits(run_image(image, model.inputs(first), device)[0]))
    npu = np.concatenate(logits)
    fp32, quantized = model.logits_fp32(count), "pt2e" in model.compared
    pt2e = model.logits_pt2e(count) if quantized else fp32
    row: Row = {
        "samples": count,
        "policy": model.policy,
        "pcc_pt2e": pcc(npu, pt2e) if quantized else None,
        "pcc_fp32": pcc(npu, fp32),
        "pcc_pt2e_fp32": pcc(pt2e, fp32) if quantized else None,
        "pcc_between": pcc_between(pt2e),
    }
    if model.info.get("logits", True):
        step = model.imported().outputs[0].scale
        row["classes"] = len(np.unique(pt2e.argmax(1)))
        row["top1_fp32"] = int((npu.argmax(1) == fp32.argmax(1)).sum())
        row["disagreements"] = disagreements(npu, pt2e, step)
    if model.labels is not None:
        row["accuracy"] = float((npu.argmax(1) == model.labels[:count]).mean())
        row["accuracy_fp32"] = float((fp32.argmax(1) == model.labels[:count]).mean())
    return row


def disagreements(
    npu: NDArray[np.float32], pt2e: NDArray[np.float32], step: float
) -> list[dict[str, Any]]:
    """The samples whose top-1 class differs, and by how much PyTorch preferred its own.

    margin: PyTorch's logit of its class over that of the NPU's, in steps of the int8 output.
    """
    found = []
    for sample in np.flatnonzero(npu.argmax(1) != pt2e.argmax(1)):
        theirs, ours = int(pt2e[sample].argmax()), int(npu[sample].argmax())
        margin = float(pt2e[sample, theirs] - pt2e[sample, ours]) / step
        found.append(
            {"sample": int(sample), "pt2e": theirs, "npu": ours, "margin_steps": round(margin)}
        )
    return found


def fed_run(built: "Built", config: NpuConfig) -> Row:
    """Each layer on PyTorch's integers of the first sample: how far its result is from theirs."""
    from sw.measure.diff_run import diff_rows

    rows = diff_rows(built, config, DeviceOptions(device="golden"), fed=True)
    tolerance = usual_tolerance(built.model.imported.policy, fed=True)
    worst = max(rows, key=lambda r: r.differing / r.elements)
    return {
        "operators": len(rows),
        "operator_elements": sum(r.elements for r in rows),
        "operator_differing": sum(r.differing for r in rows),
        "operator_max_lsb": max(r.max_lsb for r in rows),
        "operator_worst": _shown(worst),
        "operators_beyond": [_shown(r) for r in rows if r.exceeds(tolerance)],
        "kinds": _kinds(rows),
    }


def _shown(row: LayerDiff) -> dict[str, Any]:
    return {
        "layer": row.layer,
        "ops": list(row.ops),
        "elements": row.elements,
        "differing": row.differing,
        "max_lsb": row.max_lsb,
    }


def _kinds(rows: Sequence[LayerDiff]) -> dict[str, dict[str, int]]:
    """The same figures by the operator that a layer begins with."""
    kinds: dict[str, dict[str, int]] = {}
    for row in rows:
        kind = next((op for op in row.ops if op == "ADD"), row.ops[0])
        sums = kinds.setdefault(kind, {"layers": 0, "elements": 0, "differing": 0, "max_lsb": 0})
        sums["layers"] += 1
        sums["elements"] += row.elements
        sums["differing"] += row.differing
        sums["max_lsb"] = max(sums["max_lsb"], row.max_lsb)
    return kinds


def problems(row: Row) -> list[str]:
    """What of a validation did not come out as it must; empty if all did."""
    found = []
    if row["pcc_pt2e"] is None:
        if row["pcc_fp32"] < MIN_PCC_FLOAT:
            found.append(f"PCC with float is {row['pcc_fp32']:.5f}, below {MIN_PCC_FLOAT}")
    elif row["pcc_pt2e"] < MIN_PCC:
        found.append(f"PCC with PyTorch's int8 graph is {row['pcc_pt2e']:.5f}, below {MIN_PCC}")
    between = row["pcc_between"]
    if between is not None and between >= MAX_PCC_BETWEEN:
        found.append(f"different samples have a PCC of {between:.3f}: that PCC says nothing")
    for layer in row["operators_beyond"]:
        found.append(
            f"{layer['layer']}: {layer['differing']} of {layer['elements']} elements differ by up "
            f"to {layer['max_lsb']} LSB on PyTorch's own integers"
        )
    if not row["reference_exact"]:
        found.append("golden model and TOSA reference model differ")
    return found
