"""Models as `.pte` files: what ExecuTorch's runtime computes with our delegates in them."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from executorch_models import Counting, Mixed, cnn, lowered, quantized, resnet18

import systola
from spec.names import did_you_mean
from sw.cli.main import main
from sw.compiler.frontend.capture import capture
from sw.compiler.tosa.file import from_flatbuffer
from sw.frontends.executorch import library
from sw.frontends.executorch.errors import MISSING
from sw.measure.compiled import figures, programs
from sw.runtime.session import OptionError
from sw.torch_backend.fallback import partition_model
from sw.torch_backend.variant import NotCompiledError
from systola.executorch import ExecuTorchError, SystolaPartitioner, load, register


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """(the file, the partitioner, the float model, its call) of a model with a part on the CPU."""
    torch.manual_seed(0)
    model = Mixed().eval()
    x, shift = torch.randn(1, 3, 8, 8), torch.randn(1, 4)
    path = tmp_path_factory.mktemp("mixed") / "mixed.pte"
    partitioner = lowered(torch.export.export(model, (x,), {"shift": shift}), path)
    return path, partitioner, model, (x, shift)


def test_what_the_npu_lacks_stays_with_executorch(mixed):
    path, partitioner, model, (x, shift) = mixed
    text = str(partitioner)
    assert re.search(r"npu 0 +conv2d", text) and re.search(r"cpu +cumsum", text)
    program = load(path)
    classes, scores = program(x, shift)
    exact = model(x, shift=shift)
    assert torch.allclose(classes, exact["classes"], atol=0.03)
    assert torch.allclose(scores, exact["scores"], atol=0.03)
    assert len(program.delegates) == 2
    assert program.report.data["totals"]["runs"] == 2


def test_a_file_computes_bit_for_bit_what_a_partitioned_model_computes(mixed):
    path, _, model, (x, shift) = mixed
    captured = capture(model, (x,), {"shift": shift}, whole=False)
    other = partition_model(captured, systola.preset("tiny"))
    again = torch.randn(x.shape, generator=torch.manual_seed(3))
    classes, scores = load(path)(again, shift)
    want = other(again, shift=shift)
    assert torch.equal(classes, want["classes"])
    assert torch.equal(scores, want["scores"])


@pytest.mark.rtl
def test_the_rtl_computes_what_golden_does_and_counts_cycles(mixed):
    path, _, _, call = mixed
    program = load(path, device="rtl", verify=True)
    found = program(*call)
    assert program.report.bit_exact is True
    assert program.report.cycles == pytest.approx(program.report.predicted_cycles, rel=0.2)
    assert all(map(torch.equal, found, load(path)(*call)))
    assert "verified" in str(program.report)


def test_a_quantized_resnet_equals_the_compiled_program_bit_for_bit(tmp_path):
    torch.manual_seed(0)
    images = torch.randn(2, 3, 32, 32)
    program = quantized(resnet18(width=16), images)
    partitioner = lowered(program, tmp_path / "resnet.pte", config="small")
    assert " cpu " not in str(partitioner)
    compiled = systola.compile(program, (images[:1],), systola.preset("small"))
    arrays = systola.run(compiled.image, compiled.inputs(images[1:]))
    (want,) = compiled.outputs(arrays)
    network = load(tmp_path / "resnet.pte")
    (found,) = network(images[1:])
    assert np.array_equal(found.numpy(), want)
    predicted = compiled.image.info["predicted_cycles"]
    assert network.report.predicted_cycles == pytest.approx(predicted, rel=0.02)


def test_a_quantized_model_keeps_its_scales_and_a_float_one_is_calibrated(tmp_path):
    torch.manual_seed(0)
    images = torch.randn(4, 3, 8, 8)
    lowered(quantized(cnn(), images), tmp_path / "int8.pte")
    lowered(
        torch.export.export(cnn(), (images[:1],)),
        tmp_path / "float.pte",
        calibration=[(image[None] * 10,) for image in images],
        policy="pt2e",
    )
    ends = {}
    for name in ("int8", "float"):
        (delegate,) = load(tmp_path / f"{name}.pte").delegates
        assert delegate.payload.policy == "pt2e"
        ends[name] = delegate.payload.inputs[0].port.ends[1]
    assert ends["int8"] == pytest.approx(float(images.max()), rel=0.1)
    assert ends["float"] == pytest.approx(10 * float(images.max()), rel=0.1)


def test_buffers_that_a_model_writes_stay_between_calls(tmp_path):
    model = Counting().eval()
    lowered(torch.export.export(model, (torch.randn(2, 8),)), tmp_path / "counting.pte")
    program = load(tmp_path / "counting.pte")
    x = torch.randn(2, 8)
    counts = [float(program(x)[1]) for _ in range(3)]
    assert counts == [1, 2, 3]


def test_programs_loaded_without_load_take_the_registered_device(mixed):
    from executorch.runtime import Runtime

    path, _, model, (x, shift) = mixed
    register(device="golden", check=True)
    method = Runtime.get().load_program(path).load_method("forward")
    classes, _ = method.execute([x, shift])
    assert torch.allclose(classes, model(x, shift=shift)["classes"], atol=0.03)
    assert Runtime.get().backend_registry.is_available("SystolaBackend")


# Options and refusals -----------------------------------------------------------------------------


def test_options_belong_to_the_file_or_to_the_run():
    with pytest.raises(OptionError, match="device='rtl': is decided where the program runs"):
        SystolaPartitioner(device="rtl")
    with pytest.raises(OptionError, match="policy='wide': is decided when a model is lowered"):
        load("net.pte", policy="wide")
    with pytest.raises(OptionError, match=re.escape(did_you_mean("devise", ["device"]))):
        load("net.pte", devise="rtl")
    with pytest.raises(OptionError, match="verify=True: compares the RTL with the golden model"):
        load("net.pte", verify=True)
    with pytest.raises(OptionError, match="device fpga: must be one of rtl, golden"):
        load("net.pte", device="fpga")


def test_without_fallback_an_operator_of_the_cpu_is_an_error(tmp_path):
    model = Mixed().eval()
    program = torch.export.export(model, (torch.randn(1, 3, 8, 8),), {"shift": torch.randn(1, 4)})
    with pytest.raises(NotCompiledError, match="reads _to_copy: float64"):
        lowered(program, tmp_path / "mixed.pte", fallback=False)


def test_dynamic_shapes_are_refused(tmp_path):
    batch = torch.export.Dim("batch", min=2, max=8)
    program = torch.export.export(nn_linear(), (torch.randn(4, 8),), dynamic_shapes=({0: batch},))
    with pytest.raises(ExecuTorchError, match=r"dynamic shapes .* export it without"):
        lowered(program, tmp_path / "linear.pte")


def nn_linear():
    return torch.nn.Linear(8, 4).eval()


def test_to_backend_is_too_late():
    from executorch.exir import to_edge

    edge = to_edge(torch.export.export(nn_linear(), (torch.randn(1, 8),)))
    with pytest.raises(ExecuTorchError, match="to_edge_transform_and_lower, not to to_backend"):
        edge.to_backend(SystolaPartitioner(config="tiny"))


def test_inputs_that_do_not_fit_are_errors_after_which_the_program_runs(mixed):
    path, _, _, (x, shift) = mixed
    program = load(path)
    with pytest.raises(ExecuTorchError, match="input x has NaN or infinite values"):
        program(torch.full_like(x, float("nan")), shift)
    with pytest.raises(ExecuTorchError, match="ExecuTorch: "):
        program(x[:, :2], shift)
    with pytest.raises(ExecuTorchError, match="ExecuTorch: "):
        program(x)
    assert program(x, shift)[0].isfinite().all()


def test_other_files_and_methods_are_refused(mixed, tmp_path):
    (tmp_path / "net.pte").write_bytes(b"nothing of the kind")
    with pytest.raises(ExecuTorchError, match="no such file, or no program of ExecuTorch"):
        load(tmp_path / "net.pte")
    with pytest.raises(ExecuTorchError, match="has no method 'encode'; it has forward"):
        load(mixed[0], method="encode")


def test_a_missing_package_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    with pytest.raises(ExecuTorchError, match=re.escape(MISSING)):
        library.load_library()


# The command line ---------------------------------------------------------------------------------


def failure(capsys, *arguments):
    """The message of a command that refuses its arguments."""
    with pytest.raises(SystemExit) as end:
        main([str(a) for a in arguments])
    assert end.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def test_run_takes_a_file_with_inputs(mixed, tmp_path, capsys):
    path, _, _, (x, shift) = mixed
    np.save(tmp_path / "x.npy", x.numpy())
    np.save(tmp_path / "shift.npy", shift.numpy())
    found, table = tmp_path / "out", tmp_path / "run.json"
    files = ["--input", str(tmp_path / "x.npy"), "--input", str(tmp_path / "shift.npy")]
    with pytest.raises(SystemExit) as end:
        main(["run", str(path), *files, "--out", str(found), "--json", str(table)])
    assert not end.value.code
    assert "2 delegates on device golden" in capsys.readouterr().out
    want = load(path)(x, shift)
    assert np.array_equal(np.load(found / "output_0.npy")[0], want[0].numpy())
    assert json.loads(table.read_text())["totals"]["runs"] == 2


def test_run_refuses_what_the_file_has_decided(mixed, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 8, 8), np.float32))
    text = failure(capsys, "run", mixed[0], "--calib", tmp_path / "x.npy")
    assert "is compiled already; leave it out" in text
    text = failure(capsys, "run", mixed[0], "--config", "small")
    assert "image is for configuration tiny" in text


def command(capsys, *arguments):
    """(exit code, standard output) of a command."""
    with pytest.raises(SystemExit) as end:
        main([str(a) for a in arguments])
    return end.value.code or 0, capsys.readouterr().out


def test_commands_that_want_a_model_say_what_takes_a_file(mixed, capsys):
    wanted = "holds compiled programs, not a model; `systola run`, `profile`, `verify` and `bench`"
    for name in ("compile", "sensitivity", "bound"):
        assert wanted in failure(capsys, name, mixed[0])


@pytest.fixture(scope="module")
def kept(mixed, tmp_path_factory):
    """The file of `mixed` with its graphs."""
    _, _, model, (x, shift) = mixed
    path = tmp_path_factory.mktemp("kept") / "kept.pte"
    lowered(torch.export.export(model, (x,), {"shift": shift}), path, keep_graph=True)
    return path


def test_a_file_can_keep_the_graphs_that_its_programs_were_compiled_of(mixed, kept):
    bare = [delegate.payload for delegate in load(mixed[0]).delegates]
    full = [delegate.payload for delegate in load(kept).delegates]
    for one, other in zip(bare, full, strict=True):
        assert not one.graph and other.graph
        assert one.image.to_bytes() == other.image.to_bytes()
        graph = from_flatbuffer(other.graph)
        assert graph.inputs == [port.name for port in other.image.inputs]


def test_verify_compares_each_program_with_the_reference_model(mixed, kept, capsys, tmp_path):
    code, text = command(capsys, "verify", kept, "--json", tmp_path / "verify.json")
    assert code == 0 and "PASS  golden model = TOSA reference model: 9 elements" in text
    row = json.loads((tmp_path / "verify.json").read_text())
    assert row["reference_exact"] is True and row["config"] == "tiny"
    assert "keep_graph=True" in failure(capsys, "verify", mixed[0])
    assert "is for configuration tiny" in failure(capsys, "verify", kept, "--config", "small")
    assert "--policy: " in failure(capsys, "verify", kept, "--policy", "wide")


def test_verify_finds_a_program_that_is_not_of_its_graph(kept, monkeypatch, capsys):
    first, second = programs.file_programs(kept, (), None, 0)
    tensors = second.graph.tensors
    name = next(n for n, t in tensors.items() if t.is_constant and np.ndim(t.data) > 1)
    tensors[name] = replace(tensors[name], data=np.ones_like(tensors[name].data))
    monkeypatch.setattr(figures, "file_programs", lambda *_: [first, second])
    code, text = command(capsys, "verify", kept)
    assert code == 1 and "FAIL  golden model = TOSA reference model" in text


@pytest.mark.rtl
def test_bench_measures_a_file_and_says_what_is_not_compared(mixed, kept, capsys, tmp_path):
    table, rows = tmp_path / "rows.json", ["--config", "tiny", "--db", tmp_path / "r.sqlite"]
    code, _ = command(capsys, "bench", kept, mixed[0], *rows, "--json", table)
    full, bare = json.loads(table.read_text())
    assert code == 1
    assert full["bit_exact"] is True and full["reference_exact"] is True
    assert bare["bit_exact"] is True and bare["reference_exact"] is None
    assert "keep_graph=True" in bare["missing"]
    network = load(kept, device="rtl", verify=True)
    network(*map(torch.from_numpy, network.random_inputs()))
    assert full["cycles"] == bare["cycles"] == network.report.cycles
    assert full["predicted_cycles"] == network.report.predicted_cycles


@pytest.mark.rtl
def test_profile_has_the_layers_of_each_program(mixed, capsys, tmp_path):
    trace, table = tmp_path / "trace.json", tmp_path / "profile.json"
    code, text = command(capsys, "profile", mixed[0], "--trace", trace, "--json", table)
    first, second = json.loads(table.read_text())
    assert code == 0 and text.count("PASS  RTL = golden model") == 2
    assert {"conv2d", "linear"} <= {layer["name"] for layer in first["layers"]}
    for each in (first, second):
        assert sum(layer["cycles"] for layer in each["layers"]) == each["cycles"]
    notes = {e["name"] for e in json.loads((tmp_path / "trace-0.json").read_text())["traceEvents"]}
    assert any(note.startswith("matrix ") for note in notes)
    assert (tmp_path / "trace-1.json").is_file()


def test_profile_refuses_what_only_a_model_has(mixed, capsys, tmp_path):
    assert "are profiled on the RTL" in failure(capsys, "profile", mixed[0], "-d", "golden")
    text = failure(capsys, "profile", mixed[0], "--html", tmp_path / "page.html")
    assert "--html: " in text and "is compiled already" in text
