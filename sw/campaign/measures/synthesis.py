"""Area, clock and energy of a configuration, by `sw.synth` and `sw.energy`."""

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from spec.dram import IDEAL
from spec.names import did_you_mean
from sw.campaign.measures.bench import Bench, config_of, quiet
from sw.campaign.workloads import prepare
from sw.results.task import CampaignError, Outcome, Status, Task
from sw.runtime.scratch import Scratch

if TYPE_CHECKING:
    from sw.synth.flow import Cells

TARGETS = ("generic", "ecp5", "liberty")
EFFORTS = ("quick", "full", "none")
_FIGURES = (
    *("area_ge", "fmax_mhz", "critical_ns", "sram_bits"),
    *("luts", "ffs", "dsps", "brams", "target", "effort", "seconds"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesis:
    """How to synthesize. effort: none for not at all. liberty: `FILE@DIGEST` of the library."""

    target: str = "generic"
    effort: str = "none"
    liberty: str = ""

    @property
    def device(self) -> str:
        """What stands for it in a task: `generic-quick`, `liberty-full:cells.lib@1a2b3c4d`."""
        return f"{self.target}-{self.effort}" + (f":{self.liberty}" if self.liberty else "")

    @classmethod
    def of(cls, device: str) -> Self:
        """The one that `device` stands for."""
        head, _, liberty = device.partition(":")
        target, _, effort = head.partition("-")
        return cls(target=target, effort=effort, liberty=liberty)

    @classmethod
    def checked(cls, target: str, effort: str, liberty: str) -> Self:
        """With a file in place of `FILE@DIGEST`; `CampaignError` for what does not go together."""
        for name, value, known in (("target", target, TARGETS), ("effort", effort, EFFORTS)):
            if value not in known:
                near = did_you_mean(value, known)
                raise CampaignError(f"{name} {value!r}: must be one of {', '.join(known)}{near}")
        if (target == "liberty") != bool(liberty):
            raise CampaignError(
                f"target {target!r} with liberty {liberty!r}: target liberty needs a file of "
                "cells, and no other target takes one"
            )
        return cls(target=target, effort=effort, liberty=_named(liberty) if liberty else "")


def _named(file: str) -> str:
    try:
        digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:8]
    except OSError as error:
        raise CampaignError(f"liberty {file}: cannot read: {error.strerror}") from None
    return f"{Path(file).absolute()}@{digest}"


def check_tools(how: Synthesis) -> None:
    """`SynthError` that says what to install, if a tool is missing."""
    from sw.synth.tools import find_nextpnr, find_yosys

    if how.effort == "none":
        return
    find_yosys()
    if how.target == "ecp5" and how.effort == "full":
        find_nextpnr()


def synth(task: Task, bench: Bench) -> Outcome:
    """Area and clock. figures: those of `_FIGURES`, which a target leaves None that has no such
    thing; blocks: gate equivalents (on an FPGA look-up tables) by block.
    """
    from sw.synth.flow import synthesize
    from sw.synth.fpga.ecp5 import synthesize_ecp5
    from sw.synth.recipe import effort_named

    how, config = Synthesis.of(task.device), config_of(task)
    effort = effort_named(how.effort)
    found: dict[str, Any]
    with Scratch("synth") as scratch:
        if how.target == "ecp5":
            found = synthesize_ecp5(config, effort, scratch.path, quiet).to_json()
            size = "luts"
        else:
            found = synthesize(cells_of(how), False, config, effort, scratch.path, quiet).to_json()
            size = "area_ge"
    figures = {name: found[name] for name in _FIGURES}
    figures["blocks"] = {path: block[size] for path, block in found["blocks"].items()}
    return Outcome(status=Status.PASSED, figures=figures, message=found.get("problem", ""))


def netlist(task: Task, bench: Bench) -> Outcome:
    """What the energies of a configuration need: its netlist, and the simulator that is sampled.

    Both are in the cache then. Without this task the first energy would make them, and another
    worker that takes the second one would wait for it.
    """
    from sw.energy.flow import prepare
    from sw.synth.recipe import effort_named

    how, start = Synthesis.of(task.device), time.monotonic()
    prepare(config_of(task), cells_of(how), effort_named(how.effort), quiet)
    return Outcome(status=Status.PASSED, figures={"netlist_s": round(time.monotonic() - start, 1)})


def energy(task: Task, bench: Bench) -> Outcome:
    """Energy of an inference, from sampled states of the RTL on the netlist.

    figures: energy_uj, of it chip_uj and dram_uj; standard_error of the samples, as a share of
    chip_uj; mhz: the clock that leakage counts for.
    """
    from sw.energy.flow import Settings, measure_energy
    from sw.synth.recipe import effort_named

    how, config = Synthesis.of(task.device), config_of(task)
    work = prepare(task.workload, config, task.seed)
    settings = Settings(seed=task.seed, latency=task.latency, stall=task.stall)
    if task.memory != IDEAL:
        raise CampaignError(
            f"energy with memory {task.memory}: samples are of an ideal memory; leave kind out"
        )
    report = measure_energy(
        work.image,
        work.inputs,
        task.workload,
        config,
        cells_of(how),
        effort_named(how.effort),
        settings,
        quiet,
    )
    return Outcome(
        status=Status.PASSED,
        macs=work.macs,
        image_digest=work.digest,
        figures={
            "energy_uj": report.total_pj / 1e6,
            "chip_uj": report.chip_pj / 1e6,
            "dram_uj": report.dram_pj / 1e6,
            "standard_error": report.error,
            "mhz": report.mhz,
        },
    )


def cells_of(how: Synthesis) -> "Cells":
    """The library of cells; `CampaignError` if its file is another by now."""
    from sw.synth.flow import generic_cells, liberty_cells

    if not how.liberty:
        return generic_cells()
    file, _, _ = how.liberty.rpartition("@")
    if _named(file) != how.liberty:
        raise CampaignError(f"liberty {file}: the file has changed since; start again")
    return liberty_cells(Path(file))
