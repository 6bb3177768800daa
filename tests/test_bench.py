"""`systola bench`: rows, what makes them count, going on after an interruption."""

import json

import numpy as np
import pytest
import torch
from cli_helpers import systola
from test_cli_commands import refused
from test_cli_report import KEYS

from spec.config import preset
from sw.cli.main import main
from sw.compiler.tosa.flatbuffer import to_flatbuffer
from sw.compiler.tosa.graph import Graph
from sw.measure import bench, bench_store
from sw.measure.bench import problems, run_suite, summary
from sw.measure.bench_health import activation_health
from sw.measure.bench_store import Store, read_rows
from sw.measure.bench_suites import Entry, entries, named
from sw.measure.targets import build_kernel
from sw.models import catalog as models
from sw.runtime import session
from sw.runtime.report import ReportError
from sw.runtime.session import DeviceOptions, OptionError

TINY = preset("tiny")
CONDITIONS = {"latency": 100, "stall": 0.0, "seed": 0}
GOOD = {
    "config": "tiny", "config_digest": TINY.digest_hex, "cycles": 1000, "macs": 8000,
    "utilization": 0.5, "bit_exact": True, "reference_exact": True, "elements": 64,
    "wall_s": 0.5, "sim_cycles_per_s": 2000.0, "dram_read_bytes": 100, "dram_write_bytes": 10,
}  # fmt: skip


def good(entry, config, options):
    return {"name": entry.name, **GOOD}


def store(path, **changes):
    return Store(path, TINY, CONDITIONS | changes)


def test_suites_hold_the_names_that_benchmarks_are_known_by():
    assert [e.name for e in entries("micro")] == [
        *("matmul_128x256x256", "matmul_64x64x64", "conv_first_4x224", "depthwise_3x112x17"),
        *("fc_9216x64", "fc_1024_bus32", "resize_2x", "transpose_shuffle"),
    ]
    assert [e.name for e in entries("nets")] == [
        *("resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2"),
        *("resnet8", "ds_cnn", "vww", "ad"),
    ]
    assert [e.name for e in entries("transformers")] == [
        *("bert_base_s128", "gpt2_prefill_s32", "gpt2_decode_s16", "minilm_s64"),
    ]
    assert [e.name for e in entries("nets", ["vww", "resnet8"])] == ["resnet8", "vww"]


@pytest.mark.parametrize(
    ("suite", "only", "message"),
    [
        ("all", [], "--suite all: must be one of micro, nets, transformers"),
        ("micro", ["vww"], "--only vww: not in suite micro, which has matmul_128x256x256, "),
    ],
)
def test_unknown_suites_and_entries_are_refused(suite, only, message):
    with pytest.raises(OptionError) as caught:
        entries(suite, only)
    assert str(caught.value).startswith(message)


def test_an_entry_may_have_hardware_of_its_own(tmp_path, monkeypatch):
    chosen = [Entry(name="a", target="a"), Entry(name="b", target="b", settings={"taps": "2"})]
    ran = []

    def take(entry, config, options):
        ran.append((entry.name, config.taps))
        return {**good(entry, config, options), "config_digest": config.digest_hex}

    monkeypatch.setattr(bench, "measured", take)
    for _ in range(2):
        rows = run_suite(chosen, TINY, DeviceOptions(), store(tmp_path / "r"), print)
        assert [row["name"] for row in rows] == ["a", "b"]
    assert ran == [("a", 3), ("b", 2)]
    assert len({row["config_digest"] for row in rows}) == 2


def test_an_interrupted_suite_goes_on_where_it_was(tmp_path, monkeypatch):
    chosen = [Entry(name=n, target=n) for n in ("a", "b", "c")]
    ran = []

    def until_b(entry, config, options):
        ran.append(entry.name)
        if entry.name == "b" and len(ran) == 2:
            raise KeyboardInterrupt
        return good(entry, config, options)

    monkeypatch.setattr(bench, "measured", until_b)
    path = tmp_path / "rows.json"
    with pytest.raises(KeyboardInterrupt):
        run_suite(chosen, TINY, DeviceOptions(), store(path), print)
    assert [row["name"] for row in read_rows(path)] == ["a"]
    said = []
    rows = run_suite(chosen, TINY, DeviceOptions(), store(path), said.append)
    assert ran == ["a", "b", "b", "c"]
    assert [row["name"] for row in rows] == ["a", "b", "c"]
    assert "(stored)" in said[0] and "(stored)" not in " ".join(said[1:])
    assert not list(tmp_path.glob("*.part"))


def test_rows_hold_for_the_same_sources_configuration_and_memory_only(tmp_path, monkeypatch):
    path = tmp_path / "rows.json"
    store(path).add("a", {"name": "a", **GOOD})
    assert store(path).find("a")["cycles"] == 1000
    assert store(path).find("b") is None
    assert store(path, latency=200).find("a") is None
    assert Store(path, preset("small"), CONDITIONS).find("a") is None
    assert Store(path, TINY, CONDITIONS, fresh=True).find("a") is None
    monkeypatch.setattr(bench_store, "source_digest", lambda: "other")
    assert store(path).find("a") is None


def test_rows_of_other_entries_and_configurations_stay(tmp_path):
    path = tmp_path / "rows.json"
    store(path).add("a", {"name": "a", **GOOD})
    other = {**GOOD, "name": "a", "config": "small", "config_digest": preset("small").digest_hex}
    Store(path, preset("small"), CONDITIONS).add("a", other)
    store(path, latency=7).add("a", {"name": "a", **GOOD, "cycles": 2})
    rows = read_rows(path)
    assert [(r["config"], r["cycles"], r["latency"]) for r in rows] == [
        ("small", 1000, 100),
        ("tiny", 2, 7),
    ]


def test_an_entry_that_cannot_run_is_a_failure_and_the_next_one_runs(tmp_path):
    chosen = [Entry(name="x", target="no_such_kernel", shape="1x1x1")]
    (row,) = run_suite(chosen, TINY, DeviceOptions(), store(tmp_path / "r"), print)
    assert row["error"].startswith("kernel 'no_such_kernel': no such kernel")
    assert problems(row) == [row["error"]]
    assert summary(row).startswith("x: NOT MEASURED: kernel 'no_such_kernel'")
    assert store(tmp_path / "r").find("x") is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"bit_exact": None}, "bit_exact is None"),
        ({"reference_exact": False}, "reference_exact is False"),
        ({"activations": {"dead": ["t is constant (0)"]}}, "activation t is constant (0)"),
        (
            {"pcc_between_images": 0.995},
            "two different inputs give outputs with a PCC of 0.9950: the network says nothing",
        ),
    ],
)
def test_what_makes_a_figure_worthless_is_named(changes, problem):
    assert problems({"name": "a", **GOOD}) == []
    row = {"name": "a", **GOOD, **changes}
    assert problems(row) == [problem]
    assert problem in summary(row)


def test_dead_activations_are_found():
    graph = Graph(name="g")
    x = graph.add_input("x", (1, 10, 10, 1), "int8", zero_point=3)
    for name, low, high in (("alive", -100, 100), ("flat", 5, 5), ("limits", -128, 127)):
        y = graph.add_op("CLAMP", [x], {"min_val": low, "max_val": high}, name=name)
        graph.tensors[y].zero_point = 3
        graph.outputs.append(y)
    values = np.full(100, 127, np.int8)
    values[:4] = (0, 1, 2, 4)
    found = activation_health(graph, {"x": values.reshape(1, 10, 10, 1)})
    assert (found["tensors"], found["worst"], found["worst_share"]) == (3, "limits", 0.96)
    assert found["dead"] == ["flat is constant (5)", "limits is 96.0% zero or saturated"]
    values[4:6] = 3  # its zero point: zeros count as well
    assert activation_health(graph, {"x": values.reshape(1, 10, 10, 1)})["worst_share"] == 0.96


@pytest.mark.parametrize("text", ["{}", "[1]", "no", '[{"name": "a"}]'])
def test_files_that_hold_no_rows_are_refused(tmp_path, text):
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(ReportError):
        read_rows(path)


def test_a_network_is_measured_with_pcc_and_health(monkeypatch):
    model = models.get_model("digits")
    entry = Entry(name="net", target="digits")
    seen = {}

    def on_golden(image, inputs, config, options, graph):
        seen.update(image=image, graph=graph)
        report, outputs = session.run_program(
            image, inputs, config, DeviceOptions(device="golden"), graph
        )
        report.cycles, report.comparison = 1000, report.reference
        report.dram_read_bytes = report.dram_write_bytes = 1
        return report, outputs

    monkeypatch.setattr(bench, "run_program", on_golden)
    row = bench.measured(entry, TINY, DeviceOptions())
    assert problems(row) == []
    assert (row["name"], row["elements"], row["macs"]) == ("net", 10, seen["image"].info["macs"])
    assert row["pcc"] > 0.99 and row["pcc_between_images"] < 0.9
    assert row["activations"]["tensors"] > 3 and row["compile_s"] > 0
    assert seen["graph"] is model.imported().graph


def test_a_transformer_is_measured_beside_the_float_network(tmp_path, monkeypatch):
    monkeypatch.setenv("SYSTOLA_CACHE", str(tmp_path))

    def on_golden(image, inputs, config, options, graph):
        report, outputs = session.run_program(
            image, inputs, config, DeviceOptions(device="golden"), graph
        )
        report.cycles, report.comparison = 1000, report.reference
        return report, outputs

    monkeypatch.setattr(bench, "run_program", on_golden)
    row = bench.measured(Entry(name="t", target="bert_tiny"), preset("small"), DeviceOptions())
    assert problems(row) == []
    assert (row["elements"], row["elsewhere"]) == (16 * 64, 0)
    assert row["operators"] > 100 and row["pcc"] > 0.999 > 0.99 > row["pcc_between_images"]


@pytest.mark.rtl
def test_bench_measures_once_and_goes_on_from_its_file(tmp_path):
    path = tmp_path / "rows.json"
    arguments = ["bench", "--only", "matmul_64x64x64", "-c", "tiny", "--json", path]
    code, _, err = systola(*arguments)
    assert code == 0, err
    (row,) = json.loads(path.read_text())
    assert set(row) >= KEYS | {"commit", "sources", "latency", "elements"}
    assert (row["name"], row["config"], row["macs"]) == ("matmul_64x64x64", "tiny", 64**3)
    assert row["bit_exact"] is True and row["reference_exact"] is True
    assert row["utilization"] == pytest.approx(64**3 / (16 * row["cycles"]))
    assert row["dram_write_bytes"] == row["elements"] == 64 * 64
    assert systola(*arguments)[1].startswith("[1/1] matmul_64x64x64: ")
    assert json.loads(path.read_text()) == [row]


@pytest.mark.rtl
def test_what_is_named_is_measured_each_time(tmp_path):
    graph = build_kernel("matmul", "8x8x8", 0).graph
    file, path = tmp_path / "product.tosa", tmp_path / "rows.json"
    file.write_bytes(to_flatbuffer(graph))
    arguments = ["bench", file, "matmul", "digits", "-c", "tiny", "--json", path]
    for _ in range(2):
        code, text, err = systola(*arguments)
        assert code == 0, err
        assert "stored" not in text and text.count("bit_exact, reference_exact") == 3
    product, kernel, network = json.loads(path.read_text())
    assert (product["name"], product["macs"]) == (str(file), 8**3)
    assert kernel["name"] == "matmul" and network["pcc"] > 0.99


def test_a_file_of_another_framework_is_measured_beside_its_float_network(tmp_path, monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(8, 4)).eval()
    torch.export.save(torch.export.export(model, (torch.randn(1, 8),)), tmp_path / "net.pt2")
    seen = {}

    def on_golden(image, inputs, config, options, graph):
        seen["operators"] = len(graph.ops)
        return session.run_program(image, inputs, config, DeviceOptions(device="golden"), graph)

    monkeypatch.setattr(bench, "run_program", on_golden)
    (entry,) = named([str(tmp_path / "net.pt2")])
    row = bench.measured(entry, TINY, DeviceOptions())
    assert row["reference_exact"] is True and row["pcc"] > 0.99
    assert (row["operators"], row["elsewhere"]) == (seen["operators"], 0)
    assert row["pcc_between_images"] is None


def test_bench_refuses_bad_options():
    assert "chooses from a suite" in refused("bench", "matmul", "--suite", "nets")
    assert "chooses from a suite" in refused("bench", "matmul", "--only", "vww")
    assert "no such kernel or model" in refused("bench", "nothing.tosa")
    assert refused("bench", "--only", "x").startswith("--only x: not in suite micro")
    assert refused("bench", "--suite", "x").startswith("--suite x: ")


def test_a_failed_entry_ends_with_exit_code_1(tmp_path, monkeypatch, capsys):
    def wrong_vww(entry, config, options):
        return {**good(entry, config, options), "bit_exact": entry.name != "vww"}

    monkeypatch.setattr(bench, "measured", wrong_vww)
    path = tmp_path / "rows.json"
    with pytest.raises(SystemExit) as caught:
        main(["bench", "--suite", "nets", "--only", "vww,ad", "-c", "tiny", "--json", str(path)])
    assert caught.value.code == 1
    assert capsys.readouterr().out.endswith(f"{path}: 2 entries, 1 failed vww\n")
