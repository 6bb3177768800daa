"""What `systola profile` does with the name of a kernel or a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from spec.config import NpuConfig
from sw.measure.profile.layers import Profile, record
from sw.measure.profile.report import print_profile, profile_json
from sw.measure.profile.trace import write_trace
from sw.models.supplied import NOTHING, Supplied
from sw.runtime.report import Report, compare
from sw.runtime.session import Arrays, DeviceOptions, OptionError, random_arrays, run_image
from sw.runtime.timing import Timing

if TYPE_CHECKING:
    from sw.compiler.tosa.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledRun:
    """A profile, the report of its run (compared with golden), a note per instruction."""

    profile: Profile
    report: Report
    notes: list[str]

    def print(self, console: Console) -> None:
        """All tables and the verdict."""
        print_profile(self.profile, self.report, console)

    def to_json(self) -> dict[str, Any]:
        return profile_json(self.profile, self.report)

    def write_trace(self, path: Path) -> int:
        """Write the trace; returns its number of events."""
        return write_trace(self.profile, self.notes, path)

    def write_picture(self, path: Path) -> int:
        """Write a picture of the layers' cycles; returns how many layers it shows."""
        from sw.measure.profile.picture import write_picture

        config = self.report.config
        return write_picture(self.profile, f"{self.report.name} on {config.name}", path)


def profile_target(
    name: str,
    shape: str | None,
    config: NpuConfig,
    options: DeviceOptions,
    supplied: Supplied = NOTHING,
) -> ProfiledRun:
    """Compile and run a kernel, or a model on its first sample, with the recorder on."""
    if options.device != "rtl":
        raise OptionError(f"--device {options.device}: it has no clock; a profile needs rtl")
    graph, arrays, text = target_graph(name, shape, options.seed, supplied)
    return profile_graph(graph, arrays, name, text, config, options)


def target_graph(
    name: str,
    shape: str | None,
    seed: int,
    supplied: Supplied = NOTHING,
) -> "tuple[Graph, Arrays, str]":
    """(graph, inputs, shape as text) of a kernel, a model's first sample, or a TOSA file with
    random inputs.
    """
    from sw.measure import targets
    from sw.measure.tosa_runs import is_tosa

    if is_tosa(name):
        graph = targets.target_source(name, shape, supplied)
        tensors = [graph.tensors[port] for port in graph.inputs]
        text = " ".join(f"{t.name}[{'×'.join(map(str, t.shape))}]" for t in tensors)
        return graph, random_arrays(tensors, seed), text
    if targets.is_model(name, shape):
        from sw.models.catalog import get_model

        model = get_model(name, supplied)
        return model.imported().graph, dict(model.inputs(0)), model.shape
    targets.refuse_supplied(name, supplied)
    work = targets.build_kernel(name, shape, seed)
    return work.graph, work.inputs, targets.shape_text(work)


def profile_graph(
    graph: "Graph",
    inputs: Arrays,
    name: str,
    shape: str,
    config: NpuConfig,
    options: DeviceOptions,
) -> ProfiledRun:
    """Compile `graph`, run it on RTL and golden, and analyse the run."""
    from sw.compiler.pipeline import run_stages
    from sw.runtime.golden import GoldenDevice

    compilation = run_stages(graph, config, name=name)
    image = compilation.image
    found, outputs = record(
        image,
        inputs,
        config,
        latency=options.latency,
        stall=options.stall,
        seed=options.seed,
    )
    # Hazards are looked for where programs are verified; here the results only must be right.
    expected, _ = run_image(image, inputs, GoldenDevice(config, check=False))
    report = Report(
        name=name,
        config=config,
        shape=shape,
        device=options.device,
        macs=int(image.info["macs"]),
        comparison=compare(expected, outputs),
        timing=Timing.of(image, clock_mhz=options.clock_mhz, memory=options.memory),
    )
    report.add(found.result)
    notes = ["begin", *(node.note for node in compilation.program.instructions), "end"]
    return ProfiledRun(profile=found, report=report, notes=notes)
