"""A sweep as a picture: cycles against PEs and against on-chip memory, a row per workload."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sw.campaign.sweep.result import PointResult
from sw.results.task import CampaignError


def write_picture(points: Sequence[PointResult], title: str, path: Path) -> int:
    """A PNG of every measured point; returns how many are in it.

    Without any there is no picture, nor one of an earlier sweep. `CampaignError` if the file
    cannot be written.
    """
    found = {
        workload: [
            (p.config.pes, p.memory_kib, m.best_cycles)
            for p in points
            for m in p.results
            if m.workload == workload and m.best_cycles and p.config and p.memory_kib
        ]
        for workload in dict.fromkeys(m.workload for p in points for m in p.results)
    }
    found = {workload: triples for workload, triples in found.items() if triples}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not found:
            path.unlink(missing_ok=True)
            return 0
        figure = _draw(found, title)
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise CampaignError(f"--out {path}: cannot write: {error.strerror}") from None
    return sum(map(len, found.values()))


def _draw(found: dict[str, list[tuple[int, float, int]]], title: str) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1 + 3.2 * len(found)), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"{title}: cycles (fewer is better)")
    axes = figure.subplots(len(found), 2, squeeze=False)
    for row, (workload, triples) in zip(axes, found.items(), strict=True):
        pes, memory, cycles = zip(*triples, strict=True)
        for axis, across, colour, names in (
            (row[0], pes, memory, ("PEs", "on-chip memory, KiB")),
            (row[1], memory, pes, ("on-chip memory, KiB", "PEs")),
        ):
            dots = axis.scatter(across, cycles, c=colour, cmap="viridis", s=40, zorder=2)
            figure.colorbar(dots, ax=axis, label=names[1])
            axis.set(xlabel=names[0], ylabel="cycles", title=workload)
            axis.set_xscale("log", base=2)
            values = _ticks(across)
            axis.set_xticks(values, [f"{v:,.0f}" for v in values])
            axis.minorticks_off()
            _scale_cycles(axis, cycles)
    return figure


def _ticks(across: Sequence[float]) -> list[float]:
    """The measured values, which are seldom powers of two; of two that are close, the smaller."""
    values = sorted(set(across))
    apart = (values[-1] / values[0]) ** (1 / 12)
    ticks = values[:1]
    for value in values[1:]:
        if value >= ticks[-1] * apart:
            ticks.append(value)
    return ticks


def _scale_cycles(axis: Any, cycles: Sequence[int]) -> None:
    """From 0 where the points are close to each other, else logarithmic; plain numbers."""
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    if max(cycles) < 8 * min(cycles):
        axis.set_ylim(0, 1.1 * max(cycles))
    else:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.grid(visible=True, alpha=0.3)
