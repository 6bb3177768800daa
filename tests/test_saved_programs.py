"""`.pt2` files: tensors and operators are loaded, whatever could run code is refused."""

import io
import json
import os
import pickle
import re
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from spec.errors import SystolaError
from sw.cli.main import main
from sw.models.saved_programs import SavedProgramError, load_pt2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.register_buffer("offset", torch.arange(2))
        self.constant = torch.ones(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.linear(x) + self.offset * self.constant).reshape(x.shape[0] * 2, 1)


class Touch:
    """Leaves a folder behind where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self.path),))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "net.pt2"
    batch = torch.export.Dim("batch", min=2, max=16)
    shapes = ({0: batch},)
    example = (torch.linspace(-1, 1, 12).reshape(3, 4),)
    torch.export.save(torch.export.export(Net().eval(), example, dynamic_shapes=shapes), path)
    return path


def changed(good: Path, path: Path, replace: dict[str, bytes]) -> Path:
    """The archive with records replaced or added, by their names' ends."""
    writer = torch._C.PyTorchFileWriter(str(path))
    left = dict(replace)
    with zipfile.ZipFile(good) as archive:
        for full in archive.namelist():
            name = full.partition("/")[2]
            if name in (".data/version", "byteorder", ".data/serialization_id"):
                continue
            data = left.pop(name, None) or archive.read(full)
            writer.write_record(name, data, len(data))
    for name, data in left.items():
        writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    return path


def record(good: Path, name: str) -> bytes:
    with zipfile.ZipFile(good) as archive:
        return archive.read(next(n for n in archive.namelist() if n.partition("/")[2] == name))


def pickled(value: object) -> bytes:
    out = io.BytesIO()
    torch.save(value, out)
    return out.getvalue()


@pytest.mark.parametrize("trust", [False, True])
def test_a_saved_program_computes_what_it_did(good: Path, trust: bool) -> None:
    program = load_pt2(good, trust=trust)
    (example,) = program.example_inputs[0]
    module = program.module(check_guards=False)
    parameters = dict(program.state_dict)
    want = example @ parameters["linear.weight"].T + parameters["linear.bias"]
    torch.testing.assert_close(module(example), (want + torch.arange(2)).reshape(6, 1))


def test_a_pickle_with_another_global_is_refused_unless_trusted(good: Path, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    name = "data/sample_inputs/model.pt"
    bad = changed(good, tmp_path / "bad.pt2", {name: pickled(((Touch(touched),), {}))})
    message = rf"bad\.pt2: holds global posix\.mkdir in {name}; loading that can run code"
    with pytest.raises(SavedProgramError, match=message):
        load_pt2(bad)
    assert not touched.exists()
    load_pt2(bad, trust=True)
    assert touched.exists()


def test_unpickled_weights_and_opaque_constants_are_looked_into(good: Path, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    config = "data/weights/model_weights_config.json"
    table = json.loads(record(good, config))
    table["config"]["linear.bias"] |= {"path_name": "weight_7", "use_pickle": True}
    files = {config: json.dumps(table).encode(), "data/weights/weight_7": pickled(Touch(touched))}
    with pytest.raises(SavedProgramError, match=r"holds global \S+ in weight_7"):
        load_pt2(changed(good, tmp_path / "weights.pt2", files))
    files["data/weights/weight_7"] = pickled(nn.Parameter(torch.zeros(2)))
    assert not load_pt2(changed(good, tmp_path / "fine.pt2", files)).state_dict["linear.bias"].any()
    config = "data/constants/model_constants_config.json"
    table = json.loads(record(good, config))
    table["config"]["constant"]["path_name"] = "opaque_obj_0"
    files = {
        config: json.dumps(table).encode(),
        "data/constants/opaque_obj_0": pickle.dumps(Touch(touched)),
    }
    with pytest.raises(SavedProgramError, match="holds constant, an object that is no tensor"):
        load_pt2(changed(good, tmp_path / "constants.pt2", files))
    files = {"data/weights/model.pt": pickled(Touch(touched))}
    with pytest.raises(SavedProgramError, match=r"holds global posix\.mkdir in data/weights"):
        load_pt2(changed(good, tmp_path / "old.pt2", files))
    assert not touched.exists()


def edited(good: Path, edit: str) -> bytes:
    program = json.loads(record(good, "models/model.json"))
    graph = program["graph_module"]["graph"]
    node = next(n for n in graph["nodes"] if n["target"] == "torch.ops.aten.linear.default")
    exec(edit, {"program": program, "graph": graph, "node": node})
    return json.dumps(program).encode()


PROGRAMS = {
    "attribute of torch": ("node['target'] = 'torch.os.system'", "operator torch.os.system"),
    "loads a library": ("node['target'] = 'torch.ops.load_library'", "operator torch.ops.load_lib"),
    "imports": ("node['target'] = 'torch.ops.aten.__class__'", "operator torch.ops.aten.__class__"),
    "maps a file": ("node['target'] = 'torch.ops.aten.from_file.default'", "operator torch.ops.at"),
    "method": ("node['target'] = '_operator.methodcaller'", "operator _operator.methodcaller"),
    "no text": ("node['target'] = 7", "operator 7"),
    "calls eval": (
        "graph['sym_int_values'] = {'n': {'as_expr': {'expr_str': 'eval(chr(49))', 'hint': None}}}",
        "expression eval(chr(49))",
    ),
    "attribute in a size": (
        "graph['sym_int_values'] = {'n': {'as_expr': {'expr_str': 's0.__class__', 'hint': None}}}",
        "expression s0.__class__",
    ),
    "text in a size": (
        "graph['sym_int_values'] = {'n': {'as_expr': {'expr_str': \"S('1')\", 'hint': None}}}",
        "expression S('1')",
    ),
    "long number": (
        "graph['sym_int_values'] = {'n': {'as_expr': {'expr_str': '1' * 900 + 'x', 'hint': None}}}",
        "expression 1111",
    ),
    "code as a name": ("node['name'] = 'x=1;import os'", "name 'x=1;import os'"),
    "guards": ("program['guards_code'] = ['exit()']", "guards written in Python"),
    "other containers": (
        "program['graph_module']['module_call_graph'][0]['signature']['in_spec'] = "
        '\'[1, {"type": "collections.defaultdict", "context": null, "children_spec": []}]\'',
        "arguments of type collections.defaultdict",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_no_exported_program_has_is_refused(good: Path, tmp_path: Path, name: str) -> None:
    edit, message = PROGRAMS[name]
    bad = changed(good, tmp_path / "bad.pt2", {"models/model.json": edited(good, edit)})
    with pytest.raises(SavedProgramError, match=re.escape(f"bad.pt2: holds {message}")):
        load_pt2(bad)


def test_compiled_code_is_refused(good: Path, tmp_path: Path) -> None:
    bad = changed(good, tmp_path / "bad.pt2", {"data/aotinductor/model/a.so": b"\x7fELF"})
    with pytest.raises(SavedProgramError, match=r"compiled code data/aotinductor/model/a\.so"):
        load_pt2(bad)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no program of torch.export.save: "),
        (b"PK\x03\x04 cut off", "no program of torch.export.save: "),
        (b"no zip file", "no program of torch.export.save: "),
    ],
)
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.pt2"
    path.write_bytes(data)
    with pytest.raises(SystolaError, match=re.escape(message)):
        load_pt2(path)
    with pytest.raises(SystolaError, match="no such file"):
        load_pt2(tmp_path / "none.pt2")


def test_the_option_trust_loads_what_is_refused_without(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    touched = tmp_path / "touched"
    name = "data/sample_inputs/model.pt"
    bad = changed(good, tmp_path / "bad.pt2", {name: pickled(((Touch(touched),), {}))})
    for option, code in (("--trust", 2), ("--seed=0", 2)):
        with pytest.raises(SystemExit) as ended:
            main(["compile", str(bad), option, "-o", str(tmp_path / "out")])
        assert ended.value.code == code
        assert touched.exists() is (option == "--trust")
        touched.rmdir() if touched.exists() else None
        message = capsys.readouterr().err
        assert ("with --trust everything in the file" in message) is (option != "--trust")
