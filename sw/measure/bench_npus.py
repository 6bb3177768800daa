"""`systola bench --npus`: entries of a suite on several NPUs with one memory, beside one of them.

A figure counts with `bit_exact`: every sample's outputs are the golden model's, in the run on all
NPUs and in the run of one NPU alone.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.errors import SystolaError
from spec.program import Image
from sw.measure.bench_store import Row, Store
from sw.measure.bench_suites import Entry
from sw.runtime.golden import GoldenDevice
from sw.runtime.npus.device import NpusDevice
from sw.runtime.npus.jobs import batch, check_samples
from sw.runtime.npus.report import SystemResult
from sw.runtime.npus.session import BATCH, check_partition, divide
from sw.runtime.npus.system import NARROW, NpuSystem, NpuSystemError
from sw.runtime.report import Comparison, compare
from sw.runtime.session import DeviceOptions, random_arrays, run_image
from sw.runtime.tables import FittedTable, left, right

if TYPE_CHECKING:
    from sw.compiler.tosa.graph import Graph

Arrays = dict[str, NDArray[Any]]
Say = Callable[[str], None]

SAMPLES_EACH = 4
"""Samples for each NPU, unless somebody says how many there are."""
_DISTINCT = 8
"""Different samples at most: golden computes each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NpusOptions:
    """How many NPUs, how the work is divided, how wide the memory is.

    samples: of a run; None: four for each NPU.
    """

    npus: int
    partition: str = BATCH
    shared_memory: str = NARROW
    samples: int | None = None

    def __post_init__(self) -> None:
        check_partition(self.partition)
        if self.samples is not None:
            least = self.npus if self.partition == BATCH else 1
            check_samples(self.samples, least)

    def system(self, config: NpuConfig) -> NpuSystem:
        """The system of NPUs of `config`; `NpuSystemError` if there is none."""
        return NpuSystem.of(config, self.npus, self.shared_memory)

    @property
    def count(self) -> int:
        """Samples of a run."""
        return SAMPLES_EACH * self.npus if self.samples is None else self.samples

    def conditions(self) -> dict[str, Any]:
        """Facts of a row that tell whether a stored one still holds."""
        return {
            "npus": self.npus,
            "partition": self.partition,
            "shared_memory": self.shared_memory,
            "samples": self.count,
        }

    @property
    def title(self) -> str:
        return f"{self.npus}x-{self.partition}-{self.shared_memory}"


def run_suite_npus(
    chosen: Sequence[Entry],
    config: NpuConfig,
    options: DeviceOptions,
    several: NpusOptions,
    store: Store,
    say: Say,
) -> list[Row]:
    """Measure what `store` does not have yet; each row is stored as soon as it is there.

    An entry that cannot be measured gives a row with `error`; the next ones still run.
    """
    several.system(config)  # refused before anything is built
    rows = []
    with _devices(options, several, say) as device_of:
        for number, entry in enumerate(chosen, 1):
            npu, row, how = entry.on(config), None, "stored"
            row = store.find(entry.name, npu)
            if row is None:
                start = time.monotonic()
                say(f"[{number}/{len(chosen)}] {entry.name} on {several.npus} x {npu.name}…")
                row = store.add(entry.name, _measured(entry, npu, several, device_of, say), npu)
                how = f"{time.monotonic() - start:.0f} s"
            say(f"[{number}/{len(chosen)}] {npus_summary(row)} ({how})")
            rows.append(row)
    return rows


@contextmanager
def _devices(
    options: DeviceOptions, several: NpusOptions, say: Say
) -> "Iterator[Callable[[NpuConfig], NpusDevice]]":
    """A simulator of the system, opened for the first entry of each configuration."""
    opened: dict[str, NpusDevice] = {}

    def device_of(config: NpuConfig) -> NpusDevice:
        if config.digest_hex not in opened:
            for device in opened.values():
                device.close()
            opened.clear()
            opened[config.digest_hex] = NpusDevice(
                several.system(config),
                latency=options.latency,
                stall=options.stall,
                seed=options.seed,
                memory=options.memory,
                clock_mhz=options.clock_mhz,
                say=say,
            )
        return opened[config.digest_hex]

    try:
        yield device_of
    except BaseException:
        for device in opened.values():
            device.kill()
        raise
    for device in opened.values():
        device.close()


def _measured(
    entry: Entry,
    config: NpuConfig,
    several: NpusOptions,
    device_of: Callable[[NpuConfig], NpusDevice],
    say: Say,
) -> dict[str, Any]:
    facts = {"name": entry.name, "target": entry.target, "config": config.name}
    facts["config_digest"] = config.digest_hex
    try:
        graph, samples = workload(entry, several.count)
        found = measure_graph(
            graph, samples, config, several, lambda: device_of(config), entry.name, say
        )
        return {**facts, **found}
    except SystolaError as error:
        return {**facts, "error": str(error)}


def workload(entry: Entry, count: int) -> "tuple[Graph, list[Arrays]]":
    """The graph of an entry and `count` samples of its inputs, of which some may be equal."""
    from sw.measure.targets import build_kernel
    from sw.models.catalog import get_model
    from sw.models.user import is_module

    distinct = min(count, _DISTINCT)
    if is_module(entry.target):
        raise NpuSystemError(
            f"{entry.target}: the modules' suite runs on one NPU; leave --npus out"
        )
    if entry.shape is not None:
        graph = build_kernel(entry.target, entry.shape, 0).graph
        ports = [graph.tensors[name] for name in graph.inputs]
        some = [random_arrays(ports, seed) for seed in range(distinct)]
    else:
        model = get_model(entry.target)
        graph = model.imported().graph
        runs = max(1, model.count // model.batch)
        some = [model.inputs(i * model.batch) for i in range(min(distinct, runs))]
    return graph, [some[i % len(some)] for i in range(count)]


def measure_graph(
    graph: "Graph",
    samples: Sequence[Arrays],
    config: NpuConfig,
    several: NpusOptions,
    open_device: Callable[[], NpusDevice],
    name: str,
    say: Say = lambda _: None,
) -> dict[str, Any]:
    """Run `samples` on all NPUs, and some of them on one alone; the facts of a row."""
    from sw.compiler import compile_graph

    say(f"{name}: compiling…")
    image = compile_graph(graph, config, name=name)
    plan, stages = divide(image, graph, several.npus, several.partition, len(samples), say)
    device = open_device()
    say(f"{name}: golden model…")
    expected = _golden(image, config, samples)
    say(f"{name}: {several.npus} NPUs…")
    outputs, result = device.run(plan, samples)
    same = _compared(expected, outputs)
    few = samples[: max(1, len(samples) // several.npus)]
    say(f"{name}: one NPU alone…")
    alone_outputs, alone = device.run(batch(image, 1, len(few)), few)
    same += _compared(expected[: len(few)], alone_outputs)
    return {
        **result.to_json(),
        "elements": same.elements,
        "bit_exact": same.exact,
        "difference": same.first,
        "alone_cycles_per_sample": alone.cycles_per_sample,
        "alone_read_use": alone.read_use,
        "speedup": alone.cycles_per_sample / result.cycles_per_sample,
        "stages": stages,
        "busiest": _busiest(result),
        "macs": int(image.info.get("macs", 0)),
    }


def _golden(image: Image, config: NpuConfig, samples: Sequence[Arrays]) -> list[Arrays]:
    """What every sample gives; hazards do not depend on data, so the first run looks for them."""
    known: dict[int, Arrays] = {}
    for sample in samples:
        if id(sample) not in known:
            device = GoldenDevice(config, check=not known)
            known[id(sample)], _ = run_image(image, sample, device)
    return [known[id(sample)] for sample in samples]


def _compared(expected: Sequence[Arrays], outputs: Sequence[Mapping[str, Any]]) -> Comparison:
    total = Comparison(elements=0, mismatches=0)
    for want, got in zip(expected, outputs, strict=True):
        total += compare(want, got)
    return total


def _busiest(result: SystemResult) -> float:
    """Cycles a sample of the NPU that runs longest: in a pipeline, how often a sample comes out."""
    return max(share.busy / share.runs for share in result.shares if share.runs)


def npus_problems(row: Mapping[str, Any]) -> list[str]:
    """Why the figure of `row` does not count; empty if it does."""
    if row.get("error"):
        return [str(row["error"])]
    return [] if row.get("bit_exact") is True else [f"bit_exact is {row.get('bit_exact')}"]


def npus_summary(row: Mapping[str, Any]) -> str:
    """One line about a row."""
    if row.get("error"):
        return f"{row['name']}: NOT MEASURED: {row['error']}"
    verdict = "bit_exact" if not npus_problems(row) else f"FAIL: {row['difference']}"
    return (
        f"{row['name']}: {row['samples']} samples in {row['cycles']:,} cycles, "
        f"{row['speedup']:.2f} times one NPU, memory reads {row['read_use']:.0%}, {verdict}"
    )


def npus_table(rows: Sequence[Row]) -> FittedTable:
    """Measured rows for the terminal."""
    columns = [
        left("entry", fold=20),
        right("samples", 2),
        right("cycles", 1),
        right("a sample"),
        right("one NPU"),
        right("speed-up"),
        right("memory reads", 2),
        right("writes", 3),
        right("bus of each NPU", 1),
        right("fairness", 3),
        right("kHz", 5),
        left("verdict", fold=16),
    ]
    out = FittedTable(columns)
    for row in rows:
        if row.get("error"):
            out.add_row(str(row["name"]), *[""] * 10, "NOT MEASURED")
            continue
        reads = [share["read_words"] / row["cycles"] for share in row["shares"]]
        out.add_row(
            str(row["name"]),
            *(f"{row[key]:,}" for key in ("samples", "cycles")),
            *(f"{row[key]:,.0f}" for key in ("cycles_per_sample", "alone_cycles_per_sample")),
            f"{row['speedup']:.2f}",
            *(f"{row[key]:.1%}" for key in ("read_use", "write_use")),
            f"{min(reads):.0%}…{max(reads):.0%}",
            f"{row['fairness']:.3f}",
            f"{row['khz']:,.0f}",
            "FAIL" if npus_problems(row) else "exact",
        )
    return out
