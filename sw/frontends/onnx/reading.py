"""ONNX files: opsets, and what is refused before anything else."""

import copy
from pathlib import Path
from typing import Any

from spec.names import did_you_mean
from sw.frontends.onnx.errors import OnnxError
from sw.frontends.onnx.functions import is_function
from sw.frontends.onnx.identify import is_onnx
from sw.frontends.onnx.microsoft import standard
from sw.frontends.onnx.microsoft.writer import FUNCTIONS
from sw.frontends.onnx.node import reads_of
from sw.frontends.onnx.operators.table import OPERATORS
from sw.frontends.onnx.text import require_text

OLDEST, NEWEST = 13, 28
"""Versions of the default operator set: what the functions of operators are written for."""

CONTROL = ("Loop", "Scan")
DOMAINS = ("", "ai.onnx")
PROGRAMS = "systola."
"""What domains of operators that are programs begin with (`sw/frontends/onnxruntime/`)."""


def require_package() -> None:
    """`OnnxError` where the package `onnx` is not installed."""
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise OnnxError(
            "reading ONNX models needs the package onnx, which is not installed",
            hint="pip install 'systola[onnx]'",
        ) from None


def read(source: Any) -> tuple[Any, str, Path | None]:
    """(ModelProto, name for messages, folder of external data) of a path or a ModelProto."""
    require_package()
    import onnx

    if isinstance(source, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(source)
        require_text(model, "model")
        return model, model.graph.name or "model", None
    path = Path(source)
    if not path.is_file():
        raise OnnxError("no such file", file=str(path), hint="give the path of an .onnx file")
    if not is_onnx(path):
        raise OnnxError(
            "no ONNX model: it is another kind of file, or cut off",
            file=str(path),
            hint="export the model with torch.onnx.export, or copy the file again",
        )
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:
        raise OnnxError(
            f"no ONNX model: {_first_line(error)}", file=str(path), hint="copy the file again"
        ) from None
    require_text(model, str(path))
    return model, str(path), path.parent


def prepared(model: Any, file: str, *, whole: bool = True) -> Any:
    """The model with functions of its own taken apart, in order, checked, with inferred types.

    whole: `OnnxError` for a node that has no function of PyTorch.
    """
    import onnx
    from onnx import inliner, shape_inference

    if len(model.functions):
        model = inliner.inline_local_functions(model)
    version = version_of(model)
    model = ordered(model)
    if whole:
        model = standard(model, file)
        for node in model.graph.node:
            _require_known(node, min(version, NEWEST), file)
    _require_version(version, file)
    # onnx's converter and inference end the process on what its checker refuses.
    _check(model, file)
    try:
        if version < OLDEST:
            model = onnx.version_converter.convert_version(model, OLDEST)
    except Exception as error:
        raise OnnxError(
            f"opset {version}, which ONNX cannot convert to {OLDEST}: {_first_line(error)}",
            file=file,
            hint=f"export the model with opset {OLDEST} or newer",
        ) from None
    try:
        model = shape_inference.infer_shapes(model)
    except Exception as error:
        raise OnnxError(
            f"not a valid model: {_first_line(error)}", file=file, hint="export the model again"
        ) from None
    _check(model, file)
    return model


def _check(model: Any, file: str) -> None:
    """`OnnxError` for what onnx's checker finds."""
    from onnx import checker

    checked = copy.deepcopy(model)  # a shape that is set empty would be one of no dimensions
    for each in checked.graph.output:  # only the checker misses what was not inferred
        each.type.tensor_type.shape.SetInParent()
    try:
        checker.check_model(checked)
    except Exception as error:
        raise OnnxError(
            f"not a valid model: {_first_line(error)}", file=file, hint="export the model again"
        ) from None


def version_of(model: Any) -> int:
    """The version of the default operator set; 0 where there is none."""
    versions = {each.domain: int(each.version) for each in model.opset_import}
    return next((versions[d] for d in DOMAINS if d in versions), 0)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    place = next((line for line in lines[1:] if line.startswith("==> Context:")), "")
    return f"{lines[0] if lines else repr(error)}{place.replace('==> Context:', ';')}"[:300]


def _require_version(version: int, file: str) -> None:
    if not version:
        raise OnnxError(
            "no version of the default operator set", file=file, hint="export the model again"
        )
    if version > NEWEST:
        raise OnnxError(
            f"opset {version}: newer than {NEWEST}",
            file=file,
            hint=f"export the model with opset_version={NEWEST} or older",
        )


def _require_known(node: Any, version: int, file: str) -> None:
    """`OnnxError` for control flow and for operators without a function."""
    name, operator = node.name or next(iter(node.output), ""), node.op_type
    if node.domain not in DOMAINS:
        operator = f"{node.domain}::{operator}"
    if operator in CONTROL:
        raise OnnxError(
            "control flow, which a program of fixed length does not have",
            hint="export the model with the loop unrolled",
            file=file, node=name, operator=operator,
        )  # fmt: skip
    if operator in OPERATORS or operator == "If" or is_function(node, version):
        return
    if node.domain == FUNCTIONS:
        return
    if node.domain.startswith(PROGRAMS):
        raise OnnxError(
            "a compiled program of the NPU, not an operator that could be compiled",
            hint="systola.onnx.load opens the file; other commands take the model it was made of",
            file=file, node=name, operator=operator,
        )  # fmt: skip
    own = node.domain.startswith("com.microsoft")
    raise OnnxError(
        f"operator {operator} is not supported{did_you_mean(operator, OPERATORS)}",
        hint="give the model as it was before ONNX Runtime's optimizer, or export it without it"
        if own
        else "export the model without it; the page on ONNX lists the operators",
        file=file, node=name, operator=operator,
    )  # fmt: skip


def ordered(model: Any) -> Any:
    """The model with every node behind what it reads; the checker names what is in a circle."""
    nodes = [*model.graph.node]
    missing = {name for node in nodes for name in node.output if name}
    reads = [reads_of(node) for node in nodes]
    order, waiting = list[int](), [*range(len(nodes))]
    while waiting:
        later = []
        for i in waiting:
            if missing & reads[i]:
                later.append(i)
            else:
                order.append(i)
                missing -= set(nodes[i].output)
        if later == waiting:
            break
        waiting = later
    if order + waiting != sorted(order + waiting):
        copies = [copy.deepcopy(nodes[i]) for i in order + waiting]
        del model.graph.node[:]
        model.graph.node.extend(copies)
    return model


def inner_names(node: Any) -> set[str]:
    """What the branches of a node make for themselves, their inputs too."""
    graphs = [each.g for each in node.attribute if each.HasField("g")]
    made = {name for g in graphs for n in g.node for name in {*n.output, *inner_names(n)}}
    return made | {each.name for g in graphs for each in (*g.initializer, *g.input)}
