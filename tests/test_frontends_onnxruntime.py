"""ONNX models in sessions of ONNX Runtime, with what the NPU takes as programs."""

import re
import subprocess
import sys
import threading

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx_models import array, model, value
from onnx_networks import Residual, exported, quantized
from onnx_offload_models import (
    call,
    convolution,
    detector,
    embedding,
    half_quantized,
    interrupted,
)

import systola
import systola.onnx
from spec.errors import SystolaError
from sw.compiler.frontend.quantization.calls import SaturationWarning
from sw.frontends.onnx import load_onnx
from sw.runtime.session import OptionError
from sw.torch_backend.variant import NotCompiledError
from systola.onnx import OnnxError, OnnxRuntimeError, load, offload

X = call(1, 3, 8, 8)
CALLS = [call(1, 3, 8, 8, seed=i) for i in range(8)]


def plain(proto, **inputs):
    """What ONNX Runtime computes without an NPU."""
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def places(offloaded):
    return {row["name"]: row["where"] for row in offloaded.report().data["nodes"]}


def require_near(found, wanted, steps=0.02):
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    assert np.abs(found - wanted).max() < steps * np.abs(wanted).max()
    assert np.corrcoef(found.ravel(), wanted.ravel())[0, 1] > 0.999


@pytest.fixture(scope="module")
def whole():
    return offload(convolution(), X, config="tiny", calibration=CALLS, verify=True)


@pytest.fixture(scope="module")
def mixed():
    return offload(interrupted(), X, config="tiny", calibration=CALLS, verify=True)


def test_a_model_that_the_npu_takes_is_one_operator(whole):
    x = call(1, 3, 8, 8, seed=1)
    (found,) = whole.session().run(None, {"x": x})
    require_near(found, plain(convolution(), x=x)[0], 0.03)
    assert [n.op_type for n in whole.model.graph.node] == ["SystolaProgram", "Reshape"]
    assert set(places(whole).values()) == {"npu_0"}
    assert whole.report().bit_exact


def test_it_is_the_program_that_the_onnx_door_makes(whole):
    (delegate,) = whole.report().data["delegates"]
    loaded = load_onnx(convolution())
    npu = systola.preset("tiny")
    calls = [(torch.from_numpy(x),) for x in CALLS]
    program = systola.compile(loaded.module, calls[0], npu, calibration=calls)
    (wanted,) = program.outputs(systola.run(program.image, program.inputs(torch.from_numpy(X))))
    (found,) = whole.session().run(None, {"x": X})
    assert np.array_equal(found, wanted)
    assert delegate["config"] == "tiny"


def test_what_has_no_place_on_the_npu_stays_with_onnx_runtime(mixed):
    x = call(1, 3, 8, 8, seed=1)
    (found,) = mixed.session().run(None, {"x": x})
    require_near(found, plain(interrupted(), x=x)[0])
    cpu = {name for name, where in places(mixed).items() if where == "cpu"}
    assert cpu == {"nonzero", "cast", "most"}
    assert places(mixed)["first"] == "npu_0" and places(mixed)["second"] == "npu_1"


def test_the_report_says_what_ran_where_and_why(mixed):
    mixed.session().run(None, {"x": X})
    text = str(mixed.report())
    assert re.search(r"npu_0  tiny  \d+ runs: predicted [\d,]+, \d+ verified", text)
    assert re.search(r"npu_0 +first +Conv", text)
    assert re.search(r"cpu +nonzero +NonZero +operator NonZero is not supported", text)
    assert re.search(r"cpu +cast +Cast\s+operand 'places' has no shape that is known", text)
    assert mixed.report().predicted_cycles > 1000
    assert mixed.report().cycles is None


def test_boxes_are_computed_on_the_npu_and_suppressed_by_onnx_runtime():
    offloaded = offload(detector(), X, config="tiny", verify=True)
    kept, boxes, scores = offloaded.session().run(None, {"x": X})
    _, *wanted = plain(detector(), x=X)
    require_near(boxes, wanted[0])
    require_near(scores, wanted[1])
    nms = onnx.helper.make_graph(
        [n for n in detector().graph.node if n.name == "nms"],
        "nms",
        [value("boxes", boxes.shape), value("scores", scores.shape)],
        [value("y", None, onnx.TensorProto.INT64)],
        detector().graph.initializer,
    )
    alone = onnx.helper.make_model(nms, opset_imports=detector().opset_import, ir_version=10)
    assert np.array_equal(kept, plain(alone, boxes=boxes, scores=scores)[0])
    assert [n for n, where in places(offloaded).items() if where == "cpu"] == ["nms"]


def test_a_loop_reads_what_the_npu_computes_of_integers():
    inputs = {"ids": np.array([[1, 3, 5, 19]], np.int64), "times": np.array(3)}
    offloaded = offload(embedding(), inputs, config="tiny", verify=True)
    (found,) = offloaded.session().run(None, inputs)
    require_near(found, plain(embedding(), **inputs)[0])
    assert places(offloaded)["loop"] == "cpu" and places(offloaded)["gather"] == "npu_0"


# Quantized models -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def residual(tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "float.onnx"
    torch.manual_seed(0)
    exported(Residual(), torch.randn(1, 3, 8, 8), path)
    return path


@pytest.mark.parametrize("activations", ["QInt8", "QUInt8"])
def test_a_quantized_model_computes_bit_for_bit_what_the_compiler_does(residual, activations):
    path, batches = quantized(residual, activations)
    loaded = load_onnx(path)
    npu = systola.preset("tiny")
    program = systola.compile(loaded.module, loaded.example, npu)
    offloaded = offload(path, config="tiny", verify=True)
    session = offloaded.session()
    for x in batches[:3]:
        given = program.inputs(torch.from_numpy(x))
        (wanted,) = program.outputs(systola.run(program.image, given))
        assert np.array_equal(session.run(None, {"x": x})[0], wanted)
    assert set(places(offloaded).values()) == {"npu_0", "constant"}
    assert offloaded.report().bit_exact


def test_integers_that_the_cpu_reads_are_made_there():
    offloaded = offload(half_quantized(), X, config="tiny", verify=True)
    y, found, rounded = offloaded.session().run(None, {"x": X})
    wanted = plain(half_quantized(), x=X)
    where = places(offloaded)
    assert where["conv"] == "npu_0" and where["q0"] == "npu_0"
    assert {where[name] for name in ("q1", "d1", "cast", "nonzero")} == {"cpu"}
    assert where["q2"] == where["d2"] == "cpu"  # they round what the CPU makes and reads
    assert rounded == wanted[2]
    assert np.abs(y - wanted[0]).max() < 0.06  # a step of the grid, and one of the Relu's own
    assert found.shape[0] == wanted[1].shape[0]


# Devices and sessions ---------------------------------------------------------------------------


@pytest.mark.rtl
def test_the_rtl_computes_what_golden_does_and_counts_cycles(mixed, tmp_path):
    mixed.save(tmp_path / "net.onnx")
    offloaded = load(tmp_path / "net.onnx", device="rtl", verify=True)
    (found,) = offloaded.session().run(None, {"x": X})
    assert np.array_equal(found, mixed.session().run(None, {"x": X})[0])
    report = offloaded.report()
    assert report.bit_exact
    assert abs(report.cycles / report.predicted_cycles - 1) < 0.2


def test_a_saved_model_runs_in_another_process(mixed, tmp_path):
    mixed.save(tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", X)
    code = (
        "import sys, numpy as np, systola.onnx\n"
        "net = systola.onnx.load(sys.argv[1] + '/net.onnx')\n"
        "found = net.session().run(None, {'x': np.load(sys.argv[1] + '/x.npy')})\n"
        "np.save(sys.argv[1] + '/y.npy', found[0])\n"
        "print(net.report())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    (wanted,) = mixed.session().run(None, {"x": X})
    assert np.array_equal(np.load(tmp_path / "y.npy"), wanted)
    assert re.search(r"cpu +nonzero +NonZero", done.stdout)


def test_a_session_of_ones_own_computes_the_same(mixed):
    options = mixed.session_options()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    own = ort.InferenceSession(
        mixed.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    wanted = mixed.session().run(None, {"x": X})
    assert np.array_equal(own.run(None, {"x": X})[0], wanted[0])


def test_sessions_stay_valid_while_others_are_opened_and_closed(whole):
    """Operators of other types are registered while a session of the first model is open."""
    session = whole.session()
    (before,) = session.run(None, {"x": X})
    for count in range(2, 7):
        names = [f"x{i}" for i in range(count)]
        proto = model(
            [("Sum", names, ["y"], {"name": "sum"})],
            [value(name, (1, 8)) for name in names],
            [value("y", (1, 8))],
        )
        inputs = {name: call(1, 8, seed=i) for i, name in enumerate(names)}
        (found,) = offload(proto, inputs, config="tiny").session().run(None, inputs)
        require_near(found, plain(proto, **inputs)[0], 0.03)
    assert np.array_equal(session.run(None, {"x": X})[0], before)


def test_threads_may_share_a_session(whole):
    session, found = whole.session(), {}
    inputs = [call(1, 3, 8, 8, seed=i) for i in range(4)]
    wanted = [session.run(None, {"x": x})[0] for x in inputs]

    def work(i):
        found[i] = [session.run(None, {"x": inputs[i]})[0] for _ in range(3)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(each, wanted[i]) for i in range(4) for each in found[i])


# What is refused --------------------------------------------------------------------------------


def test_values_without_integers_are_an_error_in_every_session(whole, capfd):
    bad = np.full_like(X, np.nan)
    session = whole.session()
    with pytest.raises(OnnxRuntimeError, match="npu_0: input x has NaN or infinite values"):
        session.run(None, {"x": bad})
    own = ort.InferenceSession(whole.model.SerializeToString(), whole.session_options())
    capfd.readouterr()
    with pytest.raises(Exception, match="npu_0 failed if y"):
        own.run(None, {"x": bad})
    assert "input x has NaN or infinite values" in capfd.readouterr().err
    assert np.isfinite(session.run(None, {"x": X})[0]).all()


def test_a_model_that_was_not_opened_says_how(whole, tmp_path, capfd):
    whole.save(tmp_path / "net.onnx")
    own = ort.InferenceSession(str(tmp_path / "net.onnx"), whole.session_options())
    with pytest.raises(Exception, match="npu_0 failed if y"):
        own.run(None, {"x": X})
    assert "open its file with systola.onnx.load" in capfd.readouterr().err


def test_every_damage_of_a_saved_program_is_refused(whole, tmp_path):
    whole.save(tmp_path / "net.onnx")
    data = (tmp_path / "net.onnx").read_bytes()
    start = data.index(b"SYSTOLA\x01")
    path = tmp_path / "damaged.onnx"
    (node, _) = whole.model.graph.node
    length = next(len(a.t.raw_data) for a in node.attribute if a.name == "payload")
    rng = np.random.default_rng(0)
    for offset in rng.integers(0, length, 100):
        at = start + int(offset)
        path.write_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        with pytest.raises(OnnxRuntimeError, match=r"node npu_0: (damaged|begins with)"):
            load(path)


def test_every_damage_of_a_saved_model_is_an_error_with_a_reason_or_harmless(whole, tmp_path):
    whole.save(tmp_path / "net.onnx")
    data = (tmp_path / "net.onnx").read_bytes()
    path = tmp_path / "damaged.onnx"
    start = data.index(b"SYSTOLA\x01")
    tail = range(len(data) - 1500, len(data))
    rng, refused = np.random.default_rng(1), 0
    for at in rng.choice([*range(start), *tail], 150):
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << rng.integers(8))]) + data[at + 1 :])
        try:
            load(path).session()
        except SystolaError:
            refused += 1
    assert refused > 50


def test_models_that_were_not_offloaded_are_refused_by_load(tmp_path):
    onnx.save(convolution(), tmp_path / "net.onnx")
    with pytest.raises(OnnxRuntimeError, match=r"net.onnx: no model that systola.onnx.offload"):
        load(tmp_path / "net.onnx")
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(OnnxError, match="no ONNX model"):
        load(tmp_path / "text.onnx")


def test_the_compiler_refuses_a_saved_model_and_says_what_opens_it(whole, tmp_path):
    whole.save(tmp_path / "net.onnx")
    with pytest.raises(OnnxError, match=r"compiled program of the NPU[^\n]*\n.*systola.onnx.load"):
        load_onnx(tmp_path / "net.onnx")


def test_without_fallback_the_first_node_for_the_cpu_is_an_error():
    with pytest.raises(NotCompiledError, match=r"nonzero \(NonZero\) cannot run on the NPU"):
        offload(interrupted(), X, config="tiny", fallback=False)


@pytest.mark.parametrize(
    ("inputs", "options", "error", "reason"),
    [
        (X, {"devise": "rtl"}, OptionError, "no such option .did you mean 'device'"),
        (X, {"variants": 3}, OptionError, "no such option"),
        ((X, X), {}, OnnxRuntimeError, "2 inputs given, the model has 1: x"),
        ({"z": X}, {}, OnnxRuntimeError, "inputs z given, the model has x"),
        (X[:, :2], {}, OnnxError, "shape .* of input 'x'"),
    ],
)
def test_wrong_calls_say_what_to_do(inputs, options, error, reason):
    with pytest.raises(error, match=reason):
        offload(convolution(), inputs, **options)


def test_more_calls_calibrate_a_model():
    calls = [3 * call(1, 3, 8, 8, seed=i) for i in range(3)]
    narrow = offload(convolution(), X, config="tiny")
    wide = offload(convolution(), X, config="tiny", calibration=[*calls, np.concatenate(calls)])
    errors = []
    with pytest.warns(SaturationWarning, match="npu_0: 44"):
        narrow.session().run(None, {"x": calls[0]})
    for each in (narrow, wide):
        (found,) = each.session().run(None, {"x": calls[0]})
        errors.append(np.abs(found - plain(convolution(), x=calls[0])[0]).max())
    assert errors[1] < errors[0] / 5


def test_a_model_without_a_node_for_the_npu_is_left_as_it_is():
    proto = model(
        [("NonZero", ["x"], ["y"], {"name": "nonzero"})],
        [value("x", (4,))],
        [value("y", None, onnx.TensorProto.INT64)],
        [array("unread", [1.0])],
    )
    x = np.array([0, 1, 0, 2], np.float32)
    offloaded = offload(proto, x)
    assert np.array_equal(offloaded.session().run(None, {"x": x})[0], [[1, 3]])
    assert offloaded.report().bit_exact is None
