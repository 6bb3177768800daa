"""`systola bench`: the suites, and how each entry is measured on the RTL.

A figure counts with `bit_exact` (RTL against golden, same program) and `reference_exact` (golden
against the TOSA reference model on the compiler's graph), both taken in the run that gave it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spec.config import NpuConfig
from spec.errors import SystolaError
from spec.names import did_you_mean
from sw.measure.bench_store import Row, Store
from sw.measure.modules import find_modules, module_problems, run_module
from sw.models.transformer_table import TRANSFORMERS
from sw.models.user import is_module
from sw.runtime.report import Report
from sw.runtime.session import DeviceOptions, OptionError, run_program

SEED = 0
"""Of kernels' data and memory stalls."""
MAX_PCC_BETWEEN = 0.99
"""A PCC says something only where two different inputs agree less than this."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One figure to take: `target` is a kernel with `shape`, a network, a transformer or a module.

    marks: facts of the row that tell whether a stored one is still of this entry.
    """

    name: str
    target: str
    shape: str | None = None
    marks: Mapping[str, str] = field(default_factory=dict)


_WINDOW = "k=3,s=2,p=1"
SUITES: Mapping[str, tuple[Entry, ...]] = {
    "micro": (
        Entry(name="matmul_128x256x256", target="matmul", shape="128x256x256"),
        Entry(name="matmul_64x64x64", target="matmul", shape="64x64x64"),
        Entry(
            name="conv_first_4x224",
            target="conv2d",
            shape=f"n=4,h=224,w=224,c=3,oc=32,{_WINDOW}",
        ),
        Entry(
            name="depthwise_3x112x17",
            target="depthwise_conv2d",
            shape=f"n=3,h=112,w=112,c=17,{_WINDOW}",
        ),
    ),
    "nets": tuple(
        Entry(name=name, target=name)
        for name in (
            *("resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2"),
            *("resnet8", "ds_cnn", "vww", "ad"),
        )
    ),
    "transformers": (
        Entry(name="bert_base_s128", target="bert"),
        Entry(name="gpt2_prefill_s32", target="gpt2"),
        Entry(name="gpt2_decode_s16", target="gpt2_decode"),
        Entry(name="minilm_s64", target="minilm"),
    ),
}


MODULES = "modules"
"""The suite of the modules in examples/modules/."""


def _suite(suite: str) -> Sequence[Entry]:
    if suite in SUITES:
        return SUITES[suite]
    if suite != MODULES:
        known = (*SUITES, MODULES)
        near = did_you_mean(suite, known)
        raise OptionError(f"--suite {suite}: must be one of {', '.join(known)}{near}")
    return [
        Entry(
            name=found.name,
            target=found.target,
            marks={"special": found.special, "file_digest": found.digest},
        )
        for found in find_modules()
    ]


def entries(suite: str, only: Sequence[str] = ()) -> list[Entry]:
    """The entries of a suite, or those of them called `only`; `OptionError` lists the names."""
    known = _suite(suite)
    names = [entry.name for entry in known]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise OptionError(
            f"--only {','.join(unknown)}: not in suite {suite}, which has {', '.join(names)}"
            f"{did_you_mean(unknown[0], names)}"
        )
    return [entry for entry in known if not only or entry.name in only]


def run_suite(
    chosen: Sequence[Entry],
    config: NpuConfig,
    options: DeviceOptions,
    store: Store,
    say: Say,
) -> list[Row]:
    """Measure what `store` does not have yet; each row is stored as soon as it is there.

    An entry that cannot be measured gives a row with `error`; the next ones still run.
    """
    rows = []
    for number, entry in enumerate(chosen, 1):
        row = store.find(entry.name)
        how = "stored"
        if row is None or any(row.get(key) != mark for key, mark in entry.marks.items()):
            say(f"[{number}/{len(chosen)}] {entry.name} on {config.name}…")
            start = time.monotonic()
            row = store.add(entry.name, measured(entry, config, options))
            how = f"{time.monotonic() - start:.0f} s"
        say(f"[{number}/{len(chosen)}] {summary(row)} ({how})")
        rows.append(row)
    return rows


def measured(entry: Entry, config: NpuConfig, options: DeviceOptions) -> dict[str, Any]:
    """The facts of one entry, or its name and `error`."""
    try:
        if entry.shape is not None:
            return run_micro(entry, config, options)
        if is_module(entry.target):
            return _run_module(entry, config, options)
        run = run_transformer if entry.target in TRANSFORMERS else run_net
        return run(entry, config, options)
    except SystolaError as error:
        facts = {"name": entry.name, "config": config.name, "config_digest": config.digest_hex}
        return {**facts, "error": str(error)}


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


def run_transformer(entry: Entry, config: NpuConfig, options: DeviceOptions) -> dict[str, Any]:
    """A transformer on its first sample, from tokens to its last result, beside the float network.

    `operators`: of its TOSA graph, each of which the NPU executes; `elsewhere`: those it does not.
    """
    from sw.models.catalog import compile_model, get_model, pcc, pcc_between

    model = get_model(entry.target)
    graph = model.imported().graph
    start = time.perf_counter()
    image = compile_model(model, config)
    compile_s = time.perf_counter() - start
    report, outputs = run_program(image, model.inputs(0), config, options, graph)
    exact = model.logits_fp32(model.count)
    report.extra = {
        "compile_s": compile_s,
        "pcc": pcc(model.logits(outputs), exact[:1]),
        "pcc_between_images": pcc_between(exact),
        "operators": len(graph.ops),
        # Nothing can be left to a host: a network that the importer or the compiler does not take
        # whole is an error.
        "elsewhere": 0,
    }
    report.shape = model.shape
    return _facts(entry, report)


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
    found = [
        f"{claim} is {row.get(claim)}"
        for claim in ("bit_exact", _reference(row))
        if row.get(claim) is not True
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
    text = f"{row['name']}: {row['cycles']:,} cycles"
    if row.get("utilization") is not None:
        text += f", {row['utilization']:.1%}"
    if row.get("pcc") is not None:
        text += f", PCC {row['pcc']:.5f}"
    if row.get("pcc_between_images") is not None:
        text += f" (between inputs {row['pcc_between_images']:.3f})"
    exact = f"bit_exact, {_reference(row)}"
    return f"{text}, {exact if not wrong else 'FAIL: ' + '; '.join(wrong)}"
