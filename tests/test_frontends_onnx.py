"""ONNX models as modules: operators against ONNX's own tests, what is folded, every refusal."""

import builtins
import re

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from onnx_models import array, model, subgraph, value

from sw.frontends.onnx import OnnxError, is_onnx, load_onnx, node_tests
from sw.frontends.onnx.operators.table import FAMILIES, OPERATORS
from sw.frontends.onnx.reading import NEWEST

SAMPLE = re.compile(
    r"test_(conv_with_\w+|convtranspose\w*|averagepool_2d_\w+|maxpool_2d_\w+|gemm_\w+|resize_\w+"
    r"|layer_normalization_4d_axis\d|lstm_\w+|slice\w*|scatternd\w*|gathernd\w*|reduce_l2_\w+"
    r"|dequantizelinear\w*|quantizelinear\w*|qlinear\w+|attention_4d|attention_4d_softcap"
    r"|center_crop_pad_\w+|topk\w*|range_float_type_positive_delta|affine_grid_2d)"
)
"""The tests that run here; `python -m sw.frontends.onnx.node_tests` runs all of them."""


@pytest.fixture(scope="module")
def verdicts():
    return [node_tests.run(c) for c in node_tests.cases() if SAMPLE.fullmatch(c.name)]


def test_operators_compute_what_onnx_says(verdicts):
    failed = [(v.test, v.reason) for v in verdicts if v.outcome == node_tests.FAILED]
    assert failed == []
    assert sum(v.outcome == node_tests.PASSED for v in verdicts) > 150


def test_what_is_refused_has_one_of_few_reasons(verdicts):
    refused = {re.sub(r"'[^']*'", "…", v.reason) for v in verdicts if v.outcome == "refused"}
    known = ("elements of type", "scales for blocks", "peepholes", "indices of a MaxPool")
    known += ("the outputs that this release of onnx has stored are wrong",)
    assert [r for r in refused if not any(k in r for k in known)] == []


def test_a_wrong_result_is_a_failure():
    case = next(c for c in node_tests.cases() if c.name == "test_relu")
    case.model, (given, *_) = node_tests._stored(case)
    inputs, outputs = ([node_tests._tensor(value).numpy() for value in each] for each in given)
    case.data_sets = [(inputs, [outputs[0] + 1])]
    assert node_tests.run(case).outcome == node_tests.FAILED
    assert next(node_tests.report([node_tests.run(case)])) == "0 passed, 0 refused, 1 failed"


def test_families_share_no_operator():
    assert sum(map(len, FAMILIES.values())) == len(OPERATORS)


# Graphs -----------------------------------------------------------------------------------------


def test_inputs_keep_their_names_and_open_sizes_become_one():
    inputs = [value("pixels.0", ("batch", 3, 4, 4)), value("scale", ("batch", 1, 1, 1))]
    proto = model([("Mul", ["pixels.0", "scale"], ["y"])], inputs)
    loaded = load_onnx(proto)
    assert (loaded.inputs, loaded.outputs) == (("pixels.0", "scale"), ("y",))
    assert [tuple(t.shape) for t in loaded.example] == [(1, 3, 4, 4), (1, 1, 1, 1)]
    program = torch.export.export(loaded.module, loaded.example)
    assert [s.arg.name for s in program.graph_signature.input_specs] == ["pixels_0", "scale"]
    wide = load_onnx(proto, shapes={"pixels.0": (2, 3, 4, 4)})
    assert wide.example[0].shape == (2, 3, 4, 4)


def test_arithmetic_on_shapes_is_folded():
    nodes = [
        ("Shape", ["x"], ["s"]),
        ("Gather", ["s", "zero"], ["n"], {"axis": 0}),
        ("Unsqueeze", ["n", "axes"], ["n1"]),
        ("Concat", ["n1", "rest"], ["shape"], {"axis": 0}),
        ("Reshape", ["x", "shape"], ["y"]),
    ]
    arrays = [array("zero", 0, "int64"), array("axes", [0], "int64"), array("rest", [-1], "int64")]
    loaded = load_onnx(model(nodes, arrays=arrays))
    assert loaded.module.order == ["y"]
    assert loaded.module(*loaded.example).shape == (1, 192)
    assert list(loaded.module.buffers()) == []


def test_a_branch_whose_condition_is_known_is_taken():
    branches = {"then_branch": subgraph("a"), "else_branch": subgraph("b")}
    condition = ("Constant", [], ["c"], {"value": array("v", True, bool)})
    nodes = [condition, ("If", ["c"], ["y"], branches)]
    loaded = load_onnx(model(nodes, inputs=[]))
    assert loaded.module().tolist() == [1.0]


def test_inputs_can_be_given_as_constants():
    inputs = [value("x"), value("shape", (2,), TensorProto.INT64)]
    loaded = load_onnx(
        model([("Reshape", ["x", "shape"], ["y"])], inputs), constants={"shape": [3, 64]}
    )
    assert loaded.inputs == ("x",)
    assert loaded.module(*loaded.example).shape == (3, 64)


def test_nodes_in_any_order():
    nodes = [("Relu", ["h"], ["y"]), ("Neg", ["x"], ["h"])]
    loaded = load_onnx(model(nodes))
    (x,) = loaded.example
    assert torch.equal(loaded.module(x), torch.relu(-x))


def test_functions_of_the_model_are_taken_apart():
    body = [helper.make_node("Add", ["a", "a"], ["b"])]
    opsets = [helper.make_opsetid("", 18)]
    function = helper.make_function("mine", "Twice", ["a"], ["b"], body, opsets)
    node = helper.make_node("Twice", ["x"], ["y"], domain="mine")
    proto = model([node], domains={"mine": 1})
    proto.functions.append(function)
    loaded = load_onnx(proto)
    assert torch.equal(loaded.module(*loaded.example), 2 * loaded.example[0])


def test_opsets_before_13_are_converted():
    nodes = [("Squeeze", ["x"], ["y"], {"axes": [0]})]
    loaded = load_onnx(model(nodes, opset=11))
    assert loaded.module(*loaded.example).shape == (3, 8, 8)


@pytest.mark.parametrize("outside", [False, True])
def test_large_weights_are_checked_and_computed_with(tmp_path, outside):
    weights = np.random.default_rng(0).normal(size=(8, 1 << 12))
    proto = model(
        [("MatMul", ["h", "w"], ["y"]), ("Neg", ["x"], ["h"])], arrays=[array("w", weights)]
    )
    onnx.save(proto, tmp_path / "net.onnx", save_as_external_data=outside, location="w.bin")
    loaded = load_onnx(tmp_path / "net.onnx")
    assert loaded.inputs == ("x",)
    (x,) = loaded.example
    assert torch.equal(loaded.module(x), -x @ torch.tensor(weights, dtype=torch.float32))
    with pytest.raises(OnnxError, match=r"no input 'w'\n  hint: the inputs are x"):
        load_onnx(tmp_path / "net.onnx", shapes={"w": (8, 4)})
    wrong = model(
        [("MatMul", ["w", "x"], ["y"])], [value("x", (3, 3))], arrays=[array("w", weights)]
    )
    with pytest.raises(OnnxError, match=r"MatMul.*a and b must have same reduction dim"):
        load_onnx(wrong)


def test_files_are_known_by_their_content(tmp_path):
    path = tmp_path / "net.bin"
    onnx.save(model([("Relu", ["x"], ["y"])]), path)
    assert is_onnx(path)
    assert load_onnx(path).inputs == ("x",)
    other = tmp_path / "net.onnx"
    for content in (b"", b"PK\x03\x04 an archive", b"\x08\x0a", path.read_bytes()[:-3]):
        other.write_bytes(content)
        assert not is_onnx(other)
    assert not is_onnx(tmp_path / "none.onnx")


def test_data_beside_the_model_are_read(tmp_path):
    proto = model([("Add", ["x", "w"], ["y"])], arrays=[array("w", np.arange(8))])
    onnx.save(
        proto, tmp_path / "net.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    loaded = load_onnx(tmp_path / "net.onnx")
    (x,) = loaded.example
    assert torch.equal(loaded.module(x), x + torch.arange(8.0))


# Refusals ---------------------------------------------------------------------------------------

RELU = ("Relu", ["x"], ["y"], {"name": "act"})


def lstm(**attributes):
    arrays = [array("w", np.zeros((1, 8, 3))), array("r", np.zeros((1, 8, 2)))]
    node = ("LSTM", ["x", "w", "r"], ["y"], {"name": "cell", "hidden_size": 2, **attributes})
    return model([node], [value("x", (4, 1, 3))], arrays=arrays)


REFUSED = {
    "newer opset": (
        lambda: model([RELU], opset=NEWEST + 1),
        f"net: opset {NEWEST + 1}: newer than {NEWEST}\n"
        f"  hint: export the model with opset_version={NEWEST} or older",
    ),
    "no opset": (
        lambda: model([RELU], opset=0),
        "net: no version of the default operator set\n  hint: export the model again",
    ),
    "loop": (
        lambda: model([("Loop", ["", "c", "x"], ["y"], {"name": "lp", "body": subgraph()})]),
        "net: node lp (Loop): control flow, which a program of fixed length does not have\n"
        "  hint: export the model with the loop unrolled",
    ),
    "if": (
        lambda: model(
            [("If", ["c"], ["y"], {
                "name": "br", "then_branch": subgraph("a"), "else_branch": subgraph("b")})],
            [value("c", (), TensorProto.BOOL)],
        ),
        "net: node br (If): control flow by 'c', which is computed from inputs\n"
        "  hint: export the model with one branch, or with Where",
    ),
    "unknown": (
        lambda: model([("Reluu", ["x"], ["y"], {"name": "act"})]),
        "net: node act (Reluu): operator Reluu is not supported (did you mean 'Relu' or 'PRelu'?)\n"
        "  hint: export the model without it; the page on ONNX lists the operators",
    ),
    "of ONNX Runtime": (
        lambda: model(
            [("Sampling", ["x"], ["y"], {"domain": "com.microsoft"})],
            domains={"com.microsoft": 1},
        ),
        "net: node y (com.microsoft::Sampling): operator com.microsoft::Sampling is not "
        "supported\n  hint: give the model as it was before ONNX Runtime's optimizer, or export "
        "it without it",
    ),
    "attribute": (
        lambda: model(
            [("BatchNormalization", ["x", "s", "s", "s", "s"], ["y", "m", "v"],
              {"name": "bn", "training_mode": 1})],
            arrays=[array("s", [1, 1, 1])],
        ),
        "net: node bn (BatchNormalization): attribute training_mode is 1\n"
        "  hint: export the model with training_mode of 0",
    ),
    "attribute that is not read": (
        lambda: lstm(clip=1.0),
        "net: node cell (LSTM): attribute clip (1.0) is not supported\n"
        "  hint: export the model without it",
    ),
    "activations": (
        lambda: lstm(activations=["Relu", "Tanh", "Tanh"]),
        "net: node cell (LSTM): activations relu, tanh, tanh\n  hint: use sigmoid, tanh, tanh",
    ),
    "a shape that is computed": (
        lambda: model(
            [("Add", ["s", "s"], ["t"]), ("Reshape", ["x", "t"], ["y"], {"name": "rs"})],
            [value("x"), value("s", (2,), TensorProto.INT64)],
        ),
        "net: node rs (Reshape): operand 't' must be a constant, and is computed from input 's'\n"
        "  hint: give the value: load_onnx(…, constants={'s': …})",
    ),
    "shapes that do not fit": (
        lambda: model([("MatMul", ["x", "w"], ["y"], {"name": "fc"})],
                      arrays=[array("w", np.zeros((5, 2)))]),
        "net: node fc (MatMul): PyTorch cannot compute it of float32[1, 3, 8, 8], float32[5, 2]: ",
    ),
    "types": (
        lambda: model([("Relu", ["x"], ["y"])], [value("x", (1,), TensorProto.FLOAT8E4M3FN)]),
        "net: input 'x': elements of type FLOAT8E4M3FN\n  hint: use one of FLOAT, DOUBLE, ",
    ),
    "types of initializers": (
        lambda: model([("Add", ["x", "w"], ["y"])], arrays=[array("w", [1], "uint64")]),
        "net: initializer w: elements of type UINT64\n  hint: use one of FLOAT, DOUBLE, ",
    ),
    "a sequence": (
        lambda: model([RELU], [helper.make_tensor_sequence_value_info("x", 1, None)]),
        "net: input 'x' is no tensor\n  hint: export the model with tensors as inputs",
    ),
    "no shape": (
        lambda: model([RELU], [value("x", None)]),
        "net: input 'x' has no shape\n  hint: give it: load_onnx(…, shapes={'x': (1, …)})",
    ),
    "not valid": (
        lambda: model([("Relu", ["x", "x"], ["y"], {"name": "act"})]),
        "net: not a valid model: Node(act) with schema(::Relu:14) has input size 2 not in range ",
    ),
    "a missing operand": (
        lambda: model([("Relu", ["z"], ["y"])]),
        "net: not a valid model: Nodes in a graph must be topologically sorted, however input 'z'",
    ),
    "an old opset": (
        lambda: model([("Upsample", ["x"], ["y"], {"name": "up", "scales": [1.0, 2]})], opset=7),
        "net: node up (Upsample): operator Upsample is not supported",
    ),
    "half floats as operands": (
        lambda: model(
            [("Cast", ["l"], ["b"], {"to": TensorProto.BFLOAT16}),
             ("Range", ["b", "b", "b"], ["y"], {"name": "rg"})],
            [], arrays=[array("l", 1.0)]),
        "net: node rg (Range): a constant operand of type BFLOAT16\n  hint: store it as FLOAT",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_where_and_what_to_do(name):
    make, message = REFUSED[name]
    with pytest.raises(OnnxError) as caught:
        load_onnx(make())
    assert str(caught.value).startswith(message)
    assert "\n  hint: " in str(caught.value)


def test_a_node_that_pytorch_cannot_compute_is_named():
    proto = model(
        [("Reshape", ["x", "s"], ["y"], {"name": "rs"})], arrays=[array("s", [7, 7], "int64")]
    )
    with pytest.raises(OnnxError) as caught:
        load_onnx(proto)
    assert str(caught.value).startswith(
        "net: node rs (Reshape): PyTorch cannot compute it of float32[1, 3, 8, 8]: "
    )


def test_shapes_must_be_of_inputs_and_fit():
    proto = model([RELU], [value("x", ("n", 3))])
    with pytest.raises(OnnxError, match=r"net: no input 'z'\n  hint: the inputs are x"):
        load_onnx(proto, shapes={"z": (1, 3)})
    with pytest.raises(OnnxError) as caught:
        load_onnx(proto, shapes={"x": (2, 4)})
    assert str(caught.value) == (
        "net: shape [2, 4] of input 'x': the model has [n, 3]\n"
        "  hint: only sizes that the model leaves open can be given"
    )


@pytest.mark.parametrize(
    ("written", "place"),
    [("Relu", "graph.node[0].op_type"), ("y_1", "graph.node[0].output[0]")],
)
def test_names_that_are_no_text_are_refused_with_their_place(tmp_path, written, place):
    proto = model([("Relu", ["x"], ["y_1"]), ("Relu", ["y_1"], ["y"])])
    damaged = proto.SerializeToString().replace(written.encode(), b"\xff" + written[1:].encode(), 1)
    path = tmp_path / "net.onnx"
    path.write_bytes(damaged)
    with pytest.raises(OnnxError) as caught:
        load_onnx(path)
    assert str(caught.value) == (
        f"{path}: not a valid model: {place} is no text: '\\xff{written[1:]}' is not UTF-8\n"
        "  hint: copy the file again"
    )
    with pytest.raises(OnnxError, match=r"^model: not a valid model: graph\.node\[0\]"):
        load_onnx(onnx.load(path))


def test_files_that_cannot_be_read_are_named(tmp_path):
    missing, text = tmp_path / "none.onnx", tmp_path / "text.onnx"
    with pytest.raises(OnnxError) as caught:
        load_onnx(missing)
    assert str(caught.value) == f"{missing}: no such file\n  hint: give the path of an .onnx file"
    text.write_text("no model")
    with pytest.raises(OnnxError) as caught:
        load_onnx(text)
    assert str(caught.value) == (
        f"{text}: no ONNX model: it is another kind of file, or cut off\n"
        "  hint: export the model with torch.onnx.export, or copy the file again"
    )
    text.write_bytes(b"\x08\x0a\x3a\x04\xff\xff\xff\xff")
    with pytest.raises(OnnxError, match=r"no ONNX model: .*\n  hint: copy the file again"):
        load_onnx(text)


def test_missing_data_are_named(tmp_path):
    path = tmp_path / "net.onnx"
    proto = model([("Add", ["x", "w"], ["y"])], arrays=[array("w", np.arange(8))])
    onnx.save(proto, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").write_bytes(b"short")
    with pytest.raises(OnnxError, match=r"tensor w: cannot read its data from 'w.bin': "):
        load_onnx(path)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(OnnxError) as caught:
        load_onnx(path)
    assert str(caught.value) == (
        f"{path}: tensor w: its data are in 'w.bin', which is not beside the model\n"
        "  hint: copy that file into the model's folder"
    )


@pytest.mark.parametrize(
    "place", ["../w.bin", "link.bin", "/etc/hostname", "sub/../../w.bin", "", ".", "a\0b"]
)
def test_data_outside_of_the_folder_are_not_read(tmp_path, place):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "w.bin").write_bytes(bytes(32))
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    proto = model([("Add", ["x", "w"], ["y"])], arrays=[array("w", np.arange(8))])
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=place)
    (folder / "net.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(OnnxError, match=r"tensor w: its data are in .*, which is not beside the"):
        load_onnx(folder / "net.onnx")


@pytest.mark.parametrize(
    "wrong", [{"offset": "8"}, {"offset": "-4"}, {"length": "8"}, {"offset": "x"}]
)
def test_data_that_do_not_fit_their_shape_are_said(tmp_path, wrong):
    proto = model([("Add", ["x", "w"], ["y"])], arrays=[array("w", np.arange(8))])
    tensor = proto.graph.initializer[0]
    (tmp_path / "w.bin").write_bytes(bytes(32))
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in {"location": "w.bin", **wrong}.items():
        tensor.external_data.add(key=key, value=text)
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(OnnxError, match=r"tensor w: cannot read its data from 'w.bin': "):
        load_onnx(tmp_path / "net.onnx")


def test_bytes_that_do_not_fit_their_shape_are_said():
    proto = model([("Reshape", ["x", "s"], ["y"])], arrays=[array("s", [1, -1], np.int64)])
    proto.graph.initializer[0].raw_data = b"\1\0\0\0"
    with pytest.raises(OnnxError, match=r"tensor s: 4 bytes, its shape \[2\] has 16"):
        load_onnx(proto)


def test_inputs_of_absurd_size_are_said():
    with pytest.raises(OnnxError, match=r"input 'x' of shape .*: more than 33,554,432 elements"):
        load_onnx(model([("Relu", ["x"], ["y"])], [value("x", (1 << 20, 1 << 20))]))


def test_sizes_of_minus_one_are_open():
    proto = model([("Relu", ["x"], ["y"])], [value("x", (-1, 3, -1, 8))])
    assert load_onnx(proto, shapes={"x": (2, 3, 5, 8)}).example[0].shape == (2, 3, 5, 8)
    assert load_onnx(proto).example[0].shape == (1, 3, 1, 8)


def test_the_package_is_asked_for(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **keywords):
        if name == "onnx":
            raise ImportError(name)
        return real(name, *args, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(OnnxError) as caught:
        load_onnx("net.onnx")
    assert str(caught.value) == (
        "reading ONNX models needs the package onnx, which is not installed\n"
        "  hint: pip install 'systola[onnx]'"
    )
