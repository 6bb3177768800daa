"""A user's own model: a Python function that makes a module, or a saved `torch.export` program.

`path.py:function` names a function without arguments that returns an `nn.Module`, or (module, its
example inputs). `file.pt2` is what `torch.export.save` wrote. Inputs and calibration data are
`.npy` files, one per argument of the module, in its order. The file's code is run: only name files
that you trust.
"""

import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spec.errors import SystolaError
from sw.runtime.arrays import load_as

if TYPE_CHECKING:
    from sw.models.build import Built

Float = NDArray[np.float32]

_FUNCTION = re.compile(r"(?P<path>.+\.py):(?P<function>\w*)")


class UserModelError(SystolaError, ValueError):
    """A model file, or data for it, that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A float module and the example inputs that came with it (none: the data decides)."""

    name: str
    module: Any
    examples: tuple[Float, ...]


def is_module(name: str) -> bool:
    """Whether `name` has the form of a user's own model."""
    return name.endswith(".pt2") or _FUNCTION.fullmatch(name) is not None


def build_user_model(name: str, inputs: Sequence[Path], calibration: Sequence[Path]) -> "Built":
    """Load, quantize and import a user's model.

    inputs: what to run it on (default: its example inputs). calibration: data that finds the ranges
    of activations (default: the inputs). `UserModelError` names the file and what is wrong in it.
    """
    from sw.models.build import build

    loaded = load_pt2(Path(name)) if name.endswith(".pt2") else load_function(name)
    examples = loaded.examples
    tests = read_inputs(inputs, "--input", examples) if inputs else examples
    if not tests:
        raise UserModelError(
            f"{name}: the inputs of this model are not known; give --input file.npy for each "
            "argument, or let the function return (module, example_inputs)"
        )
    # Without example inputs the first sample is the example.
    examples = examples or tuple(test[:1] for test in tests)
    data = read_inputs(calibration, "--calib", examples) if calibration else tests
    facts = {
        "name": loaded.name,
        "source": name,
        "data": ", ".join(map(str, inputs)) or "the model's example inputs",
        "calibration": ", ".join(map(str, calibration)) or "the inputs themselves",
        "weights": "the user's",
    }
    return build(loaded.module, data, tests, facts=facts, batch=len(examples[0]))


def load_function(name: str) -> Loaded:
    """Call `path.py:function`."""
    import torch

    match = _FUNCTION.fullmatch(name)
    assert match is not None
    path, function = Path(match["path"]), match["function"]
    if not path.is_file():
        raise UserModelError(f"{path}: no such file")
    module = _guarded(name, lambda: _executed(path))
    make = getattr(module, function, None)
    if not callable(make):
        known = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise UserModelError(
            f"{name}: {path} has no function {function!r}; it has {', '.join(known) or 'none'}"
        )
    made = _guarded(name, make)
    network, examples = made if isinstance(made, tuple) and len(made) == 2 else (made, ())
    if not isinstance(network, torch.nn.Module):
        raise UserModelError(
            f"{name}: returned {type(made).__name__}; it must return a torch.nn.Module, or "
            "(module, example_inputs)"
        )
    return Loaded(name=function, module=network.eval(), examples=_examples(name, examples))


def load_pt2(path: Path) -> Loaded:
    """Read a saved program with the example inputs that it was exported with."""
    import torch

    if not path.is_file():
        raise UserModelError(f"{path}: no such file")
    try:
        program = torch.export.load(path)
    except Exception as error:
        text = str(error).strip().splitlines()
        raise UserModelError(
            f"{path}: no program of torch.export.save: {text[0] if text else error!r}"
        ) from None
    arguments, keywords = program.example_inputs or ((), {})
    if keywords:
        raise UserModelError(
            f"{path}: exported with keyword arguments {', '.join(keywords)}; export it with "
            "positional ones"
        )
    return Loaded(
        name=path.stem, module=_program_module(program), examples=_examples(str(path), arguments)
    )


def _program_module(program: Any) -> Any:
    """A saved program as a module that can be exported once more."""
    import torch

    class Program(torch.nn.Module):
        """The program's own module refuses to be switched between training and inference."""

        def __init__(self) -> None:
            super().__init__()
            self.program = program.module(check_guards=False)

        def train(self, mode: bool = True) -> "Program":
            return self

        def forward(self, *arguments: Any) -> Any:
            return self.program(*arguments)

    return Program()


def read_inputs(
    files: Sequence[Path], option: str, examples: Sequence[Float] = ()
) -> tuple[Float, ...]:
    """The arrays of `.npy` files as float32, checked against the example inputs if there are any.

    Their first dimension counts samples: a whole multiple of the example's.
    """
    arrays = tuple(_read(file, option) for file in files)
    if examples and len(arrays) != len(examples):
        raise UserModelError(
            f"{option}: {len(arrays)} files given, the model takes {len(examples)} inputs"
        )
    for file, array, example in zip(files, arrays, examples, strict=False):
        good = array.ndim == example.ndim and array.shape[1:] == example.shape[1:]
        if not good or len(array) % len(example):
            raise UserModelError(
                f"{option} {file}: shape {list(array.shape)}; the model takes "
                f"{list(example.shape)}, or a multiple of its first dimension"
            )
    if len({len(array) for array in arrays}) > 1:
        counts = ", ".join(f"{file} {len(a)}" for file, a in zip(files, arrays, strict=True))
        raise UserModelError(f"{option}: different numbers of samples: {counts}")
    return arrays


def _read(file: Path, option: str) -> Float:
    array = load_as(file, "float32", where=f"{option} {file}")
    if array.ndim == 0 or not len(array):
        raise UserModelError(f"{option} {file}: shape {list(array.shape)} has no samples")
    return np.asarray(array, np.float32)


def _examples(name: str, given: Any) -> tuple[Float, ...]:
    import torch

    tensors = (given,) if isinstance(given, torch.Tensor) else given
    if not isinstance(tensors, tuple | list) or not all(
        isinstance(t, torch.Tensor) and t.is_floating_point() and t.dim() for t in tensors
    ):
        raise UserModelError(
            f"{name}: example inputs must be a tensor or a sequence of tensors of floating point "
            "with a batch dimension"
        )
    arrays = tuple(t.detach().cpu().float().numpy() for t in tensors)
    if len({len(a) for a in arrays}) > 1:
        raise UserModelError(f"{name}: example inputs with different first dimensions")
    return arrays


def _executed(path: Path) -> ModuleType:
    """The file as a module; what lies beside it can be imported by it."""
    spec = importlib.util.spec_from_file_location(f"systola_user_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickling look the module up
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def _guarded(name: str, call: Callable[[], Any]) -> Any:
    """What the user's code raises, as one message with the line that raised it."""
    try:
        return call()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        raise UserModelError(f"{name}: {type(error).__name__}: {error}{line}") from error
