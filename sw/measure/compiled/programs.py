"""A `.pte` file as its programs, each with the integers that one run of the file brings it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spec.config import NpuConfig
from spec.program import Image
from sw.compiler.tosa.file import from_flatbuffer
from sw.compiler.tosa.graph import Graph
from sw.frontends.delegates.delegate import Delegate
from sw.frontends.executorch.program import Program, load
from sw.models.samples import Run, read_runs
from sw.models.supplied import Supplied
from sw.runtime.session import Arrays, DeviceOptions, OptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProgram:
    """A delegate of the file. inputs: integers by port. graph: what the program was compiled of;
    None where the file does not keep it.
    """

    name: str
    image: Image
    inputs: Arrays
    graph: Graph | None


def refuse_decided(path: str | Path, supplied: Supplied, **others: object) -> None:
    """`OptionError` for an option that was given and that a compiled file has decided."""
    decided: dict[str, object] = {
        "calib": supplied.calibration,
        "precision": "" if supplied.precision.is_default else supplied.precision.text,
        "policy": "" if supplied.policy == "auto" else supplied.policy,
        "input-shape": supplied.shapes,
    }
    for name, value in {**decided, **others}.items():
        if value:
            raise OptionError(f"--{name}: {path} is compiled already; leave it out")


def open_file(path: Path, config: NpuConfig | None, options: DeviceOptions) -> Program:
    """Method `forward` of the file. config: None, or what its programs must be compiled for.

    On the RTL each run is compared with the golden model; a difference is a `SystolaError`.
    """
    program = load(
        path,
        device=options.device,
        latency=options.latency,
        stall=options.stall,
        seed=options.seed,
        clock_mhz=options.clock_mhz,
        memory=options.memory,
        verify=options.device == "rtl",
    )
    if config is not None:
        for delegate in program.delegates:
            delegate.payload.image.check_device(config)
    return program


def sample_runs(program: Program, files: Sequence[Path], seed: int) -> list[Run]:
    """A run for each sample of the files, which are in the order of the method's inputs; without
    files one on random numbers.
    """
    examples = program.random_inputs(seed)
    return read_runs(files, "--input", examples) if files else [tuple(examples)]


def file_programs(
    path: Path, files: Sequence[Path], config: NpuConfig | None, seed: int
) -> list[FileProgram]:
    """The programs of the file in its order, after one run of it on the golden model.

    files, seed: see `sample_runs`; the first sample counts. `OptionError` for a file without
    programs.
    """
    import torch

    program = open_file(path, config, DeviceOptions(device="golden"))
    if not program.delegates:
        raise OptionError(f"{path}: has no program of the NPU; ExecuTorch's kernels run all of it")
    program(*map(torch.from_numpy, sample_runs(program, files, seed)[0]))
    return [_of(delegate, path.stem) for delegate in program.delegates]


def _of(delegate: Delegate, stem: str) -> FileProgram:
    payload = delegate.payload
    name = f"{stem} {payload.name}"
    return FileProgram(
        name=name,
        image=payload.image,
        inputs=delegate.inputs,
        graph=from_flatbuffer(payload.graph, payload.name, name) if payload.graph else None,
    )
