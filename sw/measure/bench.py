"""`systola bench`: how each entry of a suite is measured on the RTL, or predicted.

A figure counts with `bit_exact` (RTL against golden, same program) and `reference_exact` (golden
against the TOSA reference model on the compiler's graph), both taken in the run that gave it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spec.config import NpuConfig
from spec.errors import SystolaError
from sw.frontends.executorch.identify import is_executorch
from sw.measure.bench_store import Row, Store
from sw.measure.bench_suites import Entry
from sw.measure.modules import module_problems, run_module
from sw.measure.tosa_runs import is_tosa, run_tosa
from sw.models.table import NETWORKS
from sw.models.wide.table import WIDE
from sw.runtime.report import Report
from sw.runtime.session import DeviceOptions, run_program
from sw.runtime.timing import Timing

SEED = 0
"""Of kernels' data and memory stalls."""
MAX_PCC_BETWEEN = 0.99
"""A PCC says something only where two different inputs agree less than this."""

NOWHERE = "none"
"""The device of rows that were predicted."""

Say = Callable[[str], None]


def run_suite(
    chosen: Sequence[Entry],
    config: NpuConfig,
    options: DeviceOptions,
    store: Store,
    say: Say,
    *,
    predict: bool = False,
) -> list[Row]:
    """Measure what `store` does not have yet; each row is stored as soon as it is there.

    An entry that cannot be measured gives a row with `error`; the next ones still run. predict:
    nothing runs, rows have what the compiler predicts. A measured row that holds stays.
    """
    rows = []
    for number, entry in enumerate(chosen, 1):
        npu = entry.on(config)
        row = store.find(entry.name, npu)
        how = "stored"
        marked = row is not None and all(row.get(k) == mark for k, mark in entry.marks.items())
        if row is None or not marked or (is_predicted(row) and not predict):
            say(f"[{number}/{len(chosen)}] {entry.name} on {npu.name}…")
            start = time.monotonic()
            take = predicted if predict else measured
            row = store.add(entry.name, take(entry, npu, options), npu)
            how = f"{time.monotonic() - start:.0f} s"
        say(f"[{number}/{len(chosen)}] {summary(row)} ({how})")
        rows.append(row)
    return rows


def measured(entry: Entry, config: NpuConfig, options: DeviceOptions) -> dict[str, Any]:
    """The facts of one entry, or its name and `error`."""
    try:
        if entry.shape is not None:
            return run_micro(entry, config, options)
        if entry.with_cpu:
            return _run_module(entry, config, options)
        if entry.target in WIDE:
            return run_wide(entry, config, options)
        if is_tosa(entry.target) or is_executorch(entry.target):
            return run_integers(entry, config, options)
        run = run_net if entry.target in NETWORKS else run_whole
        return run(entry, config, options)
    except SystolaError as error:
        return _failed(entry, config, error)


def _failed(entry: Entry, config: NpuConfig, error: SystolaError) -> dict[str, Any]:
    facts = {"name": entry.name, "config": config.name, "config_digest": config.digest_hex}
    return {**facts, "error": str(error)}


def predicted(entry: Entry, config: NpuConfig, options: DeviceOptions) -> dict[str, Any]:
    """What the compiler says of one entry without a run, or its name and `error`."""
    from sw.measure.targets import compile_target

    try:
        start = time.perf_counter()
        image = compile_target(entry.target, config, entry.shape, SEED, ())
        report = Report(
            name=entry.name,
            config=config,
            shape=str(image.info.get("shape", "")),
            device=NOWHERE,
            macs=int(image.info["macs"]),
            timing=Timing.of(image, clock_mhz=options.clock_mhz, memory=options.memory),
            extra={"compile_s": time.perf_counter() - start},
        )
        return _facts(entry, report)
    except SystolaError as error:
        return _failed(entry, config, error)


def is_predicted(row: Mapping[str, Any]) -> bool:
    """Whether nothing ran for a row."""
    return row.get("device") == NOWHERE


def run_micro(entry: Entry, config: NpuConfig, options: DeviceOptions) -> dict[str, Any]:
    """A kernel: int8 in, int8 out, random data."""
    from sw.measure.targets import build_kernel, run_kernel

    work = build_kernel(entry.target, entry.shape, SEED)
    report = run_kernel(work, config, options, verify=True)
    return _facts(entry, report)


def run_net(entry: Entry, config: NpuConfig, options: DeviceOptions) -> dict[str, Any]:
    """A network on its first test input; its activations must be alive."""
    from sw.measure.bench_health import activation_health
    from sw.models.catalog import compile_model, get_model, pcc, pcc_between

    model = get_model(entry.target)
    graph = model.imported().graph
    start = time.perf_counter()
    image = compile_model(model, config)
    compile_s = time.perf_counter() - start
    inputs = model.inputs(0)
    report, outputs = run_program(image, inputs, config, options, graph)
    reference = model.logits_pt2e(model.count)
    report.extra = {
        "compile_s": compile_s,
        "pcc": pcc(model.logits(outputs), reference[:1]),
        "pcc_between_images": pcc_between(reference),
        "activations": activation_health(graph, inputs),
    }
    report.shape = model.shape
    return _facts(entry, report)


def run_whole(entry: Entry, config: NpuConfig, options: DeviceOptions) -> dict[str, Any]:
    """A transformer or a file on its first sample, from its inputs to its last result, beside the
    float network.

    `operators`: of its TOSA graph, each of which the NPU executes; `elsewhere`: those it does not.
    """
    from sw.models.catalog import compile_model, get_model, pcc, pcc_between

    model = get_model(entry.target)
    graph = model.imported().graph
    start = time.perf_counter()
    image = compile_model(model, config)
    compile_s = time.perf_counter() - start
    report, outputs = run_program(image, model.inputs(0), config, options, graph)
    report.extra = {
        "compile_s": compile_s,
        "operators": len(graph.ops),
        # Nothing can be left to a host: a network that the importer or the compiler does not take
        # whole is an error.
        "elsewhere": 0,
    }
    if model.compared:
        exact = model.logits_fp32(model.count)
        report.extra["pcc"] = pcc(model.logits(outputs), exact[: model.batch])
        report.extra["pcc_between_images"] = pcc_between(exact)
    report.shape = model.shape
    return _facts(entry, report)


def run_integers(entry: Entry, config: NpuConfig, options: DeviceOptions) -> dict[str, Any]:
    """A graph of TOSA, or the programs of a `.pte` file, on random inputs."""
    path = Path(entry.target)
    if is_tosa(entry.target):
        return _facts(entry, run_tosa(path, (), config, options, verify=True))
    from sw.measure.compiled.figures import KEEP, measure_file

    report = measure_file(path, (), config, options)
    if report.reference is None:
        report.extra["missing"] = KEEP
    return _facts(entry, report)


def run_wide(entry: Entry, config: NpuConfig, options: DeviceOptions) -> dict[str, Any]:
    """A wide network, like a transformer; its int8 activations must be alive too."""
    from sw.measure.bench_health import activation_health
    from sw.models.catalog import get_model

    facts = run_whole(entry, config, options)
    model = get_model(entry.target)
    health = activation_health(model.imported().graph, model.inputs(0))
    return {
        **facts,
        "family": WIDE[entry.target].family,
        "policy": model.policy,
        "activations": health,
    }


def _run_module(entry: Entry, config: NpuConfig, options: DeviceOptions) -> dict[str, Any]:
    """A module of examples/modules/ through `compile`, `run` and `profile`."""
    facts = {"config": config.name, "config_digest": config.digest_hex}
    facts |= run_module(entry.target, config, options)
    return {**facts, "name": entry.name, "target": entry.target, **entry.marks}


def _facts(entry: Entry, report: Report) -> dict[str, Any]:
    elements = 0 if report.comparison is None else report.comparison.elements
    facts = {"name": entry.name, "target": entry.target, "elements": elements}
    return {**report.to_json(), **facts}


def problems(row: Mapping[str, Any]) -> list[str]:
    """Why the figure of `row` does not count; empty if it does."""
    if row.get("error"):
        return [str(row["error"])]
    claims = () if is_predicted(row) else ("bit_exact", _reference(row))
    missing = f": {row['missing']}" if "missing" in row else ""
    found = [
        f"{claim} is {row.get(claim)}{missing}" for claim in claims if row.get(claim) is not True
    ]
    activations = row.get("activations", {})
    found += [f"activation {text}" for text in activations.get("dead", ())]
    if (row.get("pcc_between_images") or 0.0) >= MAX_PCC_BETWEEN:
        found.append(
            f"two different inputs give outputs with a PCC of {row['pcc_between_images']:.4f}: "
            "the network says nothing"
        )
    return found + module_problems(row) if "cpu" in row else found


def _reference(row: Mapping[str, Any]) -> str:
    """What golden's results are compared with. The TOSA reference model runs whole programs only,
    the parts of a module are compared with our own interpreter.
    """
    return "interpreter_exact" if row.get("cpu") else "reference_exact"


def summary(row: Mapping[str, Any]) -> str:
    """One line about a row."""
    wrong = problems(row)
    if row.get("error"):
        return f"{row['name']}: NOT MEASURED: {row['error']}"
    if is_predicted(row):
        text = f"{row['name']}: {row['predicted_cycles']:,} cycles predicted"
        return text if row["share"] is None else f"{text}, share {row['share']:.1%}"
    text = f"{row['name']}: {row['cycles']:,} cycles"
    if row.get("utilization") is not None:
        text += f", {row['utilization']:.1%}"
    if row.get("pcc") is not None:
        text += f", PCC {row['pcc']:.5f}"
    if row.get("pcc_between_images") is not None:
        text += f" (between inputs {row['pcc_between_images']:.3f})"
    exact = f"bit_exact, {_reference(row)}"
    return f"{text}, {exact if not wrong else 'FAIL: ' + '; '.join(wrong)}"
