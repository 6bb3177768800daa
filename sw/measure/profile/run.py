"""What `systola profile` does with the name of a kernel or a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from spec.config import NpuConfig
from spec.isa import disassemble
from spec.program import Image
from sw.measure.profile.layers import Profile, record
from sw.measure.profile.predicted import predicted_profile
from sw.measure.profile.report import print_profile, profile_json
from sw.measure.profile.trace import write_trace
from sw.measure.profile.waits import waits
from sw.models.supplied import NOTHING, Supplied
from sw.runtime.report import Comparison, Report, compare
from sw.runtime.session import Arrays, DeviceOptions, random_arrays, run_image
from sw.runtime.timing import Timing

if TYPE_CHECKING:
    from sw.compiler.compilation import Compilation
    from sw.compiler.tosa.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledRun:
    """A profile, the report of its run (compared with golden), a note per instruction.

    compilation: None of a program that was compiled before; its waits have no known causes.
    predicted: the compiler's prediction is shown; nothing ran.
    """

    profile: Profile
    report: Report
    notes: list[str]
    compilation: "Compilation | None"
    predicted: bool = False

    def _repr_html_(self) -> str:
        """What a notebook shows: the report, and the layers."""
        return self.report._repr_html_() + self.profile._repr_html_()

    def print(self, console: Console) -> None:
        """All tables and the verdict."""
        print_profile(self.profile, self.report, console, predicted=self.predicted)

    def to_json(self) -> dict[str, Any]:
        return {**profile_json(self.profile, self.report), "predicted": self.predicted}

    def write_trace(self, path: Path) -> int:
        """Write the trace; returns its number of events."""
        timing = self.report.timing
        return write_trace(
            self.profile,
            self.notes,
            path,
            waits(self.compilation, self.profile) if self.compilation else (),
            None if timing is None else timing.clock_mhz,
        )

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
    """Compile and run a kernel, or a model on its first sample, with the recorder on.

    Device `golden` has no clock: the profile is what the compiler predicts, and nothing runs.
    """
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
    """Compile `graph`, run it on RTL and golden, and analyse the run; device `golden`: predict."""
    from sw.compiler.pipeline import run_stages

    compilation = run_stages(graph, config, name=name)
    image = compilation.image
    predicted = options.device != "rtl"
    report = _report(image, name, shape, options)
    if predicted:
        found = predicted_profile(compilation, options)
    else:
        found, report.comparison = _measured(image, inputs, options)
    report.add(found.result)
    return ProfiledRun(
        profile=found,
        report=report,
        notes=["begin", *(node.note for node in compilation.program.instructions), "end"],
        compilation=compilation,
        predicted=predicted,
    )


def profile_image(image: Image, inputs: Arrays, name: str, options: DeviceOptions) -> ProfiledRun:
    """Run a program that was compiled before on RTL and golden, and analyse the run."""
    shape = " ".join(f"{p.name}[{'×'.join(map(str, p.shape))}]" for p in image.inputs)
    report = _report(image, name, shape, options)
    found, report.comparison = _measured(image, inputs, options)
    report.add(found.result)
    notes = [disassemble(instruction) for instruction in image.instructions()]
    return ProfiledRun(profile=found, report=report, notes=notes, compilation=None)


def _report(image: Image, name: str, shape: str, options: DeviceOptions) -> Report:
    predicted = options.device != "rtl"
    return Report(
        name=name,
        config=image.config,
        shape=shape,
        device="none: cycles are predicted" if predicted else options.device,
        macs=int(image.info["macs"]),
        timing=Timing.of(image, clock_mhz=options.clock_mhz, memory=options.memory),
    )


def _measured(image: Image, inputs: Arrays, options: DeviceOptions) -> tuple[Profile, Comparison]:
    """The profile of a run on the RTL, and how its outputs differ from golden's."""
    from sw.runtime.golden import GoldenDevice

    found, outputs = record(image, inputs, image.config, options)
    # Hazards are looked for where programs are verified; here the results only must be right.
    expected, _ = run_image(image, inputs, GoldenDevice(image.config, check=False))
    return found, compare(expected, outputs)
