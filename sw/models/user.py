"""A user's own model: a Python function that makes a module, a saved `torch.export` program, or a
file of another framework.

`path.py:function` names a function without arguments that returns a model, (model, its example
inputs), or (model, example inputs, example keyword arguments). A model is an `nn.Module` or an
`ExportedProgram`; example inputs are a tensor, a sequence of arguments, or a dictionary of keyword
arguments. `file.pt2` is what `torch.export.save` wrote. ONNX, LiteRT, StableHLO and NNEF files are
known by their content (`sw/frontends/doors.py`). Inputs and calibration data are `.npy` files, one
per input, in the model's order. The file's code is run: only name files that you trust.
"""

import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from spec.errors import SystolaError
from spec.names import did_you_mean
from sw.frontends.doors import door_of
from sw.models import saved_programs
from sw.models.samples import Array, Run, read_examples, read_runs
from sw.models.supplied import NOTHING, Supplied, refuse_shapes

if TYPE_CHECKING:
    from torch import Tensor

    from sw.compiler.frontend.capture import Captured
    from sw.models.build import Built

_FUNCTION = re.compile(r"(?P<path>.+\.py):(?P<function>\w*)")


class UserModelError(SystolaError, ValueError):
    """A model file, or data for it, that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model and the example call that came with it (none: the data decides)."""

    name: str
    model: Any
    args: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_example(self) -> bool:
        return bool(self.args or self.keywords)


def is_member(name: str) -> bool:
    """Whether `name` has the form `path.py:name`."""
    return _FUNCTION.fullmatch(name) is not None


def is_module(name: str) -> bool:
    """Whether `name` has the form of a user's own model."""
    is_python = name.endswith(".pt2") or is_member(name)
    return is_python or door_of(name) is not None


def build_user_model(name: str, supplied: Supplied = NOTHING) -> "Built":
    """Load, quantize and import a user's model.

    It runs on `supplied.inputs` (default: its example inputs), and is calibrated by
    `supplied.calibration` (default: the inputs). `UserModelError` names the file and what is wrong
    in it.
    """
    from sw.models.build import build

    data = user_model(name, supplied)
    facts = {
        "name": data.loaded.name,
        "source": name,
        "data": ", ".join(map(str, supplied.inputs)) or "the model's example inputs",
        "calibration": ", ".join(map(str, supplied.calibration)) or "the inputs themselves",
        "weights": "the user's",
    }
    return build(
        data.captured,
        calls(data.tests),
        calls(data.calibration),
        facts=facts,
        policy=supplied.policy,
        precision=supplied.precision,
        batch=data.batch,
    )


def calls(runs: Sequence[Run]) -> "list[tuple[Tensor, ...]]":
    """Runs as calls of the model's graph."""
    import torch

    return [tuple(torch.from_numpy(array) for array in run) for run in runs]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserModel:
    """A user's model, captured, with the runs to test and to calibrate it on."""

    loaded: Loaded
    captured: "Captured"
    tests: list[Run]
    calibration: list[Run]

    @property
    def batch(self) -> int:
        """Samples of a run: the first dimension, where inputs and outputs agree; else 1."""
        shapes = [array.shape for array in self.tests[0]] + self.captured.output_shapes
        first = [shape[0] if shape else 0 for shape in shapes]
        sizes = {size if isinstance(size, int) else 0 for size in first}
        return sizes.pop() or 1 if len(sizes) == 1 else 1


def user_model(name: str, supplied: Supplied = NOTHING) -> UserModel:
    """Load and capture a user's model, and read its data; see `build_user_model`."""
    import torch

    from sw.compiler.frontend.capture import capture
    from sw.compiler.frontend.threads import one_thread

    inputs, calibration = supplied.inputs, supplied.calibration
    loaded = load(name, supplied)
    if not loaded.has_example:
        if not inputs:
            raise UserModelError(
                f"{name}: the inputs of this model are not known; give --input file.npy for each "
                "argument, or let the function return (module, example_inputs)"
            )
        arrays = read_examples(inputs, "--input")
        # The first sample is the example.
        args = tuple(torch.from_numpy(a[:1] if a.ndim else a) for a in arrays)
        loaded = Loaded(name=loaded.name, model=loaded.model, args=args)
    with one_thread():
        captured = capture(loaded.model, loaded.args, loaded.keywords)
    examples: list[Array] = [tensor.numpy() for tensor in captured.example]
    tests = read_runs(inputs, "--input", examples) if inputs else [tuple(examples)]
    data = read_runs(calibration, "--calib", examples) if calibration else tests
    return UserModel(loaded=loaded, captured=captured, tests=tests, calibration=data)


def load(name: str, supplied: Supplied = NOTHING) -> Loaded:
    """The model called `name`, whatever kind of file it is in."""
    door = None if is_member(name) else door_of(name)
    if door is None:
        refuse_shapes(name, supplied, "has the shapes of its example inputs")
        return load_function(name) if is_member(name) else load_pt2(Path(name), supplied.trust)
    if door.open_sizes:
        model = door.load(Path(name), shapes=dict(supplied.shapes))
    else:
        refuse_shapes(name, supplied, f"is a file of {door.name}, which leaves no size open")
        model = door.load(Path(name))
    return Loaded(name=Path(name).stem, model=model.module, args=model.example)


def load_function(name: str) -> Loaded:
    """Call `path.py:function`."""
    import torch

    make = member(name)
    made = _guarded(name, make)
    model, *example = made if isinstance(made, tuple) and 1 < len(made) < 4 else (made,)
    if not isinstance(model, torch.nn.Module | torch.export.ExportedProgram):
        raise UserModelError(
            f"{name}: returned {type(made).__name__}; it must return a torch.nn.Module or an "
            "ExportedProgram, or (model, example_inputs)"
        )
    args, keywords = _example(name, *example)
    if isinstance(model, torch.export.ExportedProgram) and not example:
        args, keywords = _of_program(model)
    function = name.rpartition(":")[2]
    return Loaded(name=function, model=model, args=args, keywords=keywords)


def member(name: str) -> Callable[..., Any]:
    """The function (or another thing that can be called) `path.py:name`; its file is run."""
    match = _FUNCTION.fullmatch(name)
    assert match is not None
    path, wanted = Path(match["path"]), match["function"]
    if not path.is_file():
        raise UserModelError(f"{path}: no such file")
    module = _guarded(name, lambda: _executed(path))
    found = getattr(module, wanted, None)
    if not callable(found):
        known = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise UserModelError(
            f"{name}: {path} has no function {wanted!r}{did_you_mean(wanted, known)}; "
            f"it has {', '.join(known) or 'none'}"
        )
    return found


def load_pt2(path: Path, trust: bool = False) -> Loaded:
    """Read a saved program with the example inputs that it was exported with."""
    program = saved_programs.load_pt2(path, trust)
    args, keywords = _of_program(program)
    return Loaded(name=path.stem, model=program, args=args, keywords=keywords)


def _of_program(program: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, keywords = program.example_inputs or ((), {})
    return tuple(args), dict(keywords)


def _example(
    name: str, given: Any = (), keywords: Any = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(positional, keyword) arguments of the example call that a user's function returns."""
    import torch

    from sw.compiler.frontend.capture import call_arguments

    good = isinstance(given, torch.Tensor | Mapping | Sequence) and not isinstance(given, str)
    if not good or not isinstance(keywords or {}, Mapping):
        raise UserModelError(
            f"{name}: example inputs must be a tensor, a sequence of arguments, or a dictionary of "
            f"keyword arguments; not {type(given).__name__}"
        )
    args, more = call_arguments(given)
    return args, {**more, **(keywords or {})}


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
