"""`systola verify` and `bench` of a `.pte` file: its programs together as one report."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

from spec.config import NpuConfig
from sw.measure.compiled.programs import FileProgram, file_programs
from sw.runtime.device import RunResult
from sw.runtime.report import Comparison, Report
from sw.runtime.session import DeviceOptions, OptionError, run_program
from sw.runtime.timing import Timing

KEEP = "lower the model with SystolaPartitioner(keep_graph=True), which keeps its graphs"


def measure_file(
    path: Path, files: Sequence[Path], config: NpuConfig | None, options: DeviceOptions
) -> Report:
    """Each program of the file on the device, with the integers that one run brings it.

    The report has the sums of all. It compares RTL with golden, and golden with the TOSA reference
    model where the file keeps the graphs. files, config: see `file_programs`.
    """
    programs = file_programs(path, files, config, options.seed)
    reports = [
        run_program(p.image, p.inputs, p.image.config, options, p.graph)[0] for p in programs
    ]
    return _joined(path, programs, reports)


def verify_file(path: Path, files: Sequence[Path], config: NpuConfig | None, seed: int) -> Report:
    """Golden against the TOSA reference model; `OptionError` for a file that keeps no graphs."""
    programs = file_programs(path, files, config, seed)
    bare = [p.name for p in programs if p.graph is None]
    if bare:
        raise OptionError(
            f"{path}: the TOSA reference model runs graphs; that of {bare[0]} is missing: {KEEP}"
        )
    golden = DeviceOptions(device="golden", seed=seed)
    reports = [run_program(p.image, p.inputs, p.image.config, golden, p.graph)[0] for p in programs]
    return _joined(path, programs, reports)


def _joined(path: Path, programs: Sequence[FileProgram], reports: Sequence[Report]) -> Report:
    """The sums over programs that run one after the other. A comparison that one lacks is None."""
    first = reports[0]
    shapes = [f"{p.name}[{'×'.join(map(str, p.shape))}]" for p in programs[0].image.inputs]
    more = f", the first of {len(programs)} programs" if len(programs) > 1 else ""
    joined = Report(
        name=path.stem,
        config=first.config,
        shape=" ".join(shapes) + more,
        device=first.device,
        macs=sum(r.macs for r in reports),
        comparison=_all([r.comparison for r in reports]),
        reference=_all([r.reference for r in reports]),
        timing=reduce(_together, [r.timing for r in reports if r.timing is not None]),
    )
    for report in reports:
        joined.add(_result(report))
    return joined


def _result(report: Report) -> RunResult:
    return RunResult(
        cycles=report.cycles,
        counters=report.counters,
        read_bytes=report.dram_read_bytes or 0,
        write_bytes=report.dram_write_bytes or 0,
        wall_s=report.wall_s,
    )


def _all(comparisons: Sequence[Comparison | None]) -> Comparison | None:
    known = [c for c in comparisons if c is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(comparisons) else None


def _together(one: Timing, two: Timing) -> Timing:
    """Of two programs in a row, whose memory is taken at once."""

    def added(a: float | None, b: float | None) -> float | None:
        return None if a is None or b is None else a + b

    predicted = added(one.predicted_cycles, two.predicted_cycles)
    return replace(
        one,
        predicted_cycles=None if predicted is None else int(predicted),
        layer_bound=added(one.layer_bound, two.layer_bound),
        program_bytes=one.program_bytes + two.program_bytes,
        constant_bytes=one.constant_bytes + two.constant_bytes,
        peak_dram_bytes=one.peak_dram_bytes + two.peak_dram_bytes,
    )
