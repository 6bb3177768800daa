"""One combinational path a pipeline stage: how long a stage may be, and what is longer."""

from collections.abc import Iterator

from sw.synth.errors import SynthError
from sw.synth.paths import Path
from sw.synth.report import Report


def check_stages(report: Report, most_fo4: float) -> None:
    """`SynthError` names every path that is longer, and outputs that inputs lead to."""
    found = [*long_paths(report.paths, report.library.fo4_ns, most_fo4)]
    found += through_paths(report.port_paths)
    if found:
        raise SynthError("\n".join([f"{report.config}: {len(found)} paths are too long", *found]))


def long_paths(paths: list[Path], fo4_ns: float, most_fo4: float) -> Iterator[str]:
    """A line for each path from register to register that is longer than `most_fo4`."""
    for path in paths:
        fo4 = path.ns / fo4_ns
        if fo4 > most_fo4:
            blocks = " → ".join(stage.block or "top" for stage in path.stages)
            yield (
                f"{path.start} → {path.end}: {fo4:.0f} FO4, {path.gates} gates, through {blocks}; "
                f"put a register on the way, a stage has at most {most_fo4:g} FO4"
            )


def through_paths(port_paths: dict[str, float]) -> Iterator[str]:
    """A line if a path leads from an input to an output without a register."""
    ns = port_paths["input to output"]
    if ns > 0:
        yield (
            f"an input leads to an output without a register, in {ns:.3f} ns: the clock of what "
            "is around the NPU depends on it; put a register on the way"
        )
