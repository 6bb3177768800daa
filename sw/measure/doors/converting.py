"""Int8 LiteRT files of PyTorch modules, by Google's own converter and quantizer.

`requirements/converters.txt` names their packages. They want other versions of what the environment
has, and need none of it: installed without what they depend on, into a folder that Python does not
import from, they run in a process of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from sw.frontends.litert.records import Port
from sw.measure.doors.network import quiet
from sw.measure.doors.programs import Array, DoorsError, Function
from sw.results.revision import ROOT

FOLDER = Path(sys.prefix, "share", "systola-converters")
"""Where the packages are."""

_SCRIPT = Path(__file__).with_name("converter.py")
_TIMEOUT = 1800.0
"""Seconds: a network of 1,000 classes takes half a minute on an idle machine."""


def litert_file(module: nn.Module, batch: Array, path: Path) -> Path:
    """The module as an int8 LiteRT file, calibrated by the images of `batch`.

    `DoorsError` where the packages are missing, or fail.
    """
    if not (FOLDER / "litert_torch").is_dir():
        raise DoorsError(
            f"litert-torch is not in {FOLDER}\n  hint: pip install --no-deps --target '{FOLDER}' "
            f"-r {ROOT / 'requirements' / 'converters.txt'}"
        )
    program, images = path.with_suffix(".pt2"), path.with_suffix(".npy")
    with quiet():
        torch.export.save(torch.export.export(module, (torch.from_numpy(batch[:1]),)), program)
    np.save(images, batch)
    command = [sys.executable, str(_SCRIPT), str(program), str(images), str(path)]
    places = [str(FOLDER), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT, check=False
    )
    if done.returncode or not path.is_file():
        last = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise DoorsError(f"the LiteRT converter failed (exit code {done.returncode}): {last}")
    return path


def of_litert(path: Path, source: Port, result: Port, delegates: bool = True) -> Function:
    """The file in LiteRT's interpreter, as a function of floats that its input holds.

    delegates: with XNNPACK, as it is by default.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    with_it, without = OpResolverType.BUILTIN, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    made = Interpreter(
        str(path),
        num_threads=1,
        experimental_op_resolver_type=with_it if delegates else without,
    )
    made.allocate_tensors()
    (given,), (found,) = made.get_input_details(), made.get_output_details()

    def run(x: Array) -> Array:
        made.set_tensor(given["index"], source.to_stored(x))
        made.invoke()
        return result.to_real(made.get_tensor(found["index"]))

    return run
