"""`systola profile` of a `.pte` file: each of its programs on the RTL, layer by layer."""

from collections.abc import Sequence
from pathlib import Path

from spec.config import NpuConfig
from sw.measure.compiled.programs import file_programs
from sw.measure.profile.run import ProfiledRun, profile_image
from sw.runtime.session import DeviceOptions, OptionError


def profile_file(
    path: Path, files: Sequence[Path], config: NpuConfig | None, options: DeviceOptions
) -> list[ProfiledRun]:
    """A profile for each program of the file, with the integers that one run brings it.

    files, config: see `file_programs`. `OptionError` for a device other than the RTL: a file has no
    graph to predict engines' work from.
    """
    if options.device != "rtl":
        raise OptionError(
            f"--device {options.device}: {path} holds programs, which are profiled on the RTL; "
            f"`systola run {path}` prints their predicted cycles"
        )
    return [
        profile_image(p.image, p.inputs, p.name, options)
        for p in file_programs(path, files, config, options.seed)
    ]
