"""The file of a quantized model: the same graph comes back, and broken files say what is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from frontend_helpers import run_case
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from sw.compiler.errors import CompileError
from sw.compiler.frontend.quantized import QuantizedModel, load_quantized
from sw.compiler.tosa.interpreter import run_graph

CASES = ("depthwise_pad_asymmetric", "residual_convs", "flatten_linear", "bmm_transposed")


def _saved(tmp_path: Path, name: str = "residual_convs") -> Path:
    run = run_case(name)
    path = tmp_path / "folder" / "m.safetensors"
    arrays = {"samples": run.inputs[run.imported.graph.inputs[0]]}
    QuantizedModel(imported=run.imported, arrays=arrays, info={"seed": 7}).save(path)
    return path


@pytest.mark.parametrize("name", CASES)
def test_what_is_saved_is_what_is_loaded(tmp_path: Path, name: str) -> None:
    run = run_case(name)
    found = load_quantized(_saved(tmp_path, name))
    assert str(found.imported.graph) == str(run.imported.graph)
    assert (found.imported.inputs, found.imported.outputs) == (
        run.imported.inputs,
        run.imported.outputs,
    )
    assert dict(found.info) == {"seed": 7}
    assert list(found.arrays) == ["samples"]
    outputs = run_graph(found.imported.graph, run.inputs)
    assert all(np.array_equal(outputs[k], v) for k, v in run.outputs.items())


def test_loading_needs_no_pytorch(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; "
        "from sw.compiler.frontend.quantized import load_quantized; "
        f"m = load_quantized(Path({str(_saved(tmp_path))!r})); "
        "print(len(m.imported.graph.ops), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(run_case("residual_convs").imported.graph.ops)), "False"]


def _meta(path: Path) -> dict[str, str]:
    with safe_open(path, framework="numpy") as file:
        return dict(file.metadata())


def _broken(path: Path, change) -> Path:
    arrays, meta = load_file(path), _meta(path)
    change(arrays, meta)
    save_file(arrays, path, metadata=meta)
    return path


def _edit_graph(meta: dict[str, str], change) -> None:
    graph = json.loads(meta["graph"])
    change(graph)
    meta["graph"] = json.dumps(graph)


BREAKS = {
    "another format": (lambda a, m: m.update(format="x"), "format 'x' is not 'systola-quantized'"),
    "newer": (lambda a, m: m.update(version="2"), "version 2 of the format, this release reads 1"),
    "no graph": (lambda a, m: m.pop("graph"), "malformed: KeyError('graph')"),
    "no json": (lambda a, m: m.update(graph="{"), "malformed: JSONDecodeError"),
    "wrong shape": (
        lambda a, m: _edit_graph(m, lambda g: g["tensors"][0].__setitem__(1, [1, 2])),
        "malformed graph: ",
    ),
    "unknown operator": (
        lambda a, m: _edit_graph(m, lambda g: g["ops"][0].__setitem__(0, "EVAL")),
        "unknown operator EVAL",
    ),
    "lost constant": (
        lambda a, m: a.pop(next(k for k in a if k.endswith("_weight"))),
        "malformed graph: ",
    ),
    "wrong type": (
        lambda a, m: a.update({k: v.astype("i4") for k, v in a.items() if k.endswith("_weight")}),
        "malformed: TypeError",
    ),
    "renamed port": (
        lambda a, m: m.update(inputs=m["inputs"].replace('"x', '"y', 1)),
        "are not the graph's",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_broken_files_are_refused_by_name(tmp_path: Path, name: str) -> None:
    change, message = BREAKS[name]
    path = _broken(_saved(tmp_path), change)
    with pytest.raises(CompileError) as caught:
        load_quantized(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    for content in (b"", b"nothing like it, but longer than eight bytes"):
        path = tmp_path / "x"
        path.write_bytes(content)
        with pytest.raises(CompileError, match="no quantized model"):
            load_quantized(path)
    with pytest.raises(CompileError, match="cannot read"):
        load_quantized(tmp_path / "absent")


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = run_case("residual_convs")
    with pytest.raises(CompileError, match="cannot write"):
        QuantizedModel(imported=run.imported).save(tmp_path / "file" / "m")
