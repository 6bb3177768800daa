"""ONNX's own tests of operators, run through the modules that models become.

`python -m sw.frontends.onnx.node_tests` runs all of them and says what is refused, and why.
"""

import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sw.frontends.onnx import load_onnx
from sw.frontends.onnx.errors import OnnxError
from sw.frontends.onnx.types import tensor_of

PASSED, REFUSED, FAILED = "passed", "refused", "failed"

_WRONG = re.compile(r"test_(qlinearmatmul_[23]D_int8_float(16|32)|l2normalization_axis_0)")
"""Up to onnx 1.20 the stored outputs of these wrap around where QLinearMatMul saturates, and are
0/0. ONNX Runtime computes what the modules do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a test, and why it was not passed."""

    test: str
    outcome: str
    reason: str = ""


def cases() -> list[Any]:
    """The tests: each has a name, a model, and pairs of inputs and outputs."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(load_model_tests(kind="node"))


def run(case: Any) -> Verdict:
    """One test: its model as a module, against the stored outputs."""
    if case.model is None and _WRONG.fullmatch(case.name):
        reason = "the outputs that this release of onnx has stored are wrong"
        return Verdict(test=case.name, outcome=REFUSED, reason=reason)
    try:
        model, pairs = _stored(case)
        for inputs, outputs in pairs:
            reason = _difference(case, model, inputs, outputs)
            if reason:
                return Verdict(test=case.name, outcome=FAILED, reason=reason)
    except OnnxError as error:
        return Verdict(test=case.name, outcome=REFUSED, reason=error.reason)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Verdict(test=case.name, outcome=FAILED, reason=reason)
    return Verdict(test=case.name, outcome=PASSED)


def _stored(case: Any) -> tuple[Any, Any]:
    """(model, pairs of inputs and outputs); up to onnx 1.20 they are files of its package."""
    if case.model is not None:
        return case.model, case.data_sets
    import onnx

    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    kinds = [[info.type for info in infos] for infos in (model.graph.input, model.graph.output)]
    return model, [
        tuple(
            [_value(file, kind) for file, kind in zip(_numbered(each, which), types, strict=False)]
            for which, types in zip(("input", "output"), kinds, strict=True)
        )
        for each in sorted(folder.glob("test_data_set_*"))
    ]


def _numbered(folder: Path, which: str) -> list[Path]:
    return sorted(folder.glob(f"{which}_*.pb"), key=lambda path: int(path.stem.split("_")[1]))


def _value(file: Path, kind: Any) -> Any:
    """A stored tensor; None for sequences and optional values, which no module has."""
    import onnx

    if not kind.HasField("tensor_type"):
        return None
    return onnx.load_tensor(str(file))


def _difference(case: Any, proto: Any, inputs: Any, outputs: Any) -> str:
    """How the module's results differ; nothing where they do not."""
    names = [info.name for info in proto.graph.input]
    given = {name: _tensor(value) for name, value in zip(names, inputs, strict=False)}
    model = _loaded(proto, given)
    tensors = [given[name] for name in model.inputs]
    with torch.no_grad():
        made = model.module(*tensors)
    made = made if isinstance(made, tuple) else (made,)
    for name, found, wanted in zip(model.outputs, made, outputs, strict=True):
        right = _tensor(wanted)
        if right is None or (found.shape, found.dtype) != (right.shape, right.dtype):
            return f"{name}: {found.dtype}{list(found.shape)} for {wanted}"
        rtol = case.rtol
        if right.dtype in (torch.float16, torch.bfloat16):
            rtol = max(rtol, 2 * torch.finfo(right.dtype).eps)
        a, b = found.double(), right.double()
        if not torch.allclose(a, b, rtol=rtol, atol=case.atol, equal_nan=True):
            return f"{name}: differs by up to {(a - b).abs().max():g}"
    return ""


def _tensor(value: Any) -> torch.Tensor | None:
    """A stored input or output; None where it is no tensor that PyTorch has."""
    from onnx import TensorProto

    try:
        if isinstance(value, TensorProto):
            return tensor_of(value)
        array = np.array(value)
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.astype(np.float32)).bfloat16()
        return torch.from_numpy(array)
    except (OnnxError, TypeError, ValueError):
        return None


def _loaded(proto: Any, given: dict[str, Any]) -> Any:
    """The model; inputs that must be constants (axes, shapes) become those of the test."""
    shapes = {name: value.shape for name, value in given.items() if value is not None}
    constants: dict[str, Any] = {}
    while True:
        rest = {name: shape for name, shape in shapes.items() if name not in constants}
        try:
            return load_onnx(proto, shapes=rest, constants=constants)
        except OnnxError as error:
            new = [name for name in error.inputs if name not in constants]
            if not new:
                raise
            constants |= {name: given[name] for name in new}


def report(verdicts: list[Verdict]) -> Iterator[str]:
    """Counts, reasons of refusals by how many tests they concern, and every failure."""
    counts = Counter(v.outcome for v in verdicts)
    yield ", ".join(f"{counts[outcome]} {outcome}" for outcome in (PASSED, REFUSED, FAILED))
    reasons = Counter(re.sub(r"'[^']*'", "…", v.reason) for v in verdicts if v.outcome == REFUSED)
    yield from (f"refused {n:4}  {reason}" for reason, n in reasons.most_common())
    yield from (f"failed {v.test}: {v.reason}" for v in verdicts if v.outcome == FAILED)


def main() -> int:
    verdicts = [run(case) for case in cases()]
    sys.stdout.writelines(f"{line}\n" for line in report(verdicts))
    return int(any(v.outcome == FAILED for v in verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
