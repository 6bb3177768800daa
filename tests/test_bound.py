"""The layer bound of a graph, of a program's layers, and `systola bound`."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cli_helpers import systola
from golden_graphs import GRAPHS

from spec import preset
from sw.cli.main import main
from sw.compiler.pipeline import run_stages
from sw.compiler.tosa.bound import graph_bound, op_bound, shares, weight_bytes
from sw.compiler.tosa.flatbuffer import to_flatbuffer
from sw.compiler.tosa.graph import Graph
from sw.measure.bound.causes import cause
from sw.measure.bound.groups import Group, grouped
from sw.measure.bound.layers import LayerFacts, layer_facts
from sw.measure.bound.report import Bound, bound_json, bound_of, of_compilation
from sw.models.kernels import kernel, parse_shape
from sw.runtime.timing import Timing

DEFAULT = preset("default")


def convolution(
    kind: str, weights: tuple[int, ...], image: tuple[int, ...], weight: int = 2
) -> Graph:
    g = Graph(name="one")
    data = np.full(weights, weight, np.int8)
    channels = weights[0] if kind == "CONV2D" else weights[2] * weights[3]
    operands = [
        g.add_input("x", image),
        g.add_constant("w", data, "int8"),
        g.add_constant("b", np.zeros(channels), "int32"),
        *(g.add_constant("zp", [0], "int8") for _ in range(2)),
    ]
    given = {"pad": (0, 0, 0, 0), "stride": (1, 1), "dilation": (1, 1)}
    g.outputs = [g.add_op(kind, operands, given, name="product")]
    return g


def product_of(left: tuple[int, int, int], right: tuple[int, int, int], constant: bool) -> Graph:
    g = Graph(name="matmul")
    b = g.add_constant("b", np.ones(right), "int8") if constant else g.add_input("b", right)
    zero = [g.add_constant("zp", [0], "int8") for _ in range(2)]
    g.outputs = [g.add_op("MATMUL", [g.add_input("a", left), b, *zero], name="product")]
    return g


@pytest.mark.parametrize(
    ("graph", "cycles"),
    [
        # 20×20 pixels of 32×16 products each: the array; 512 bytes of weights take 32 cycles.
        (convolution("CONV2D", (32, 1, 1, 16), (1, 20, 20, 16)), 400 * 512 / 256),
        # One pixel: 9,216×64 bytes of weights at 16 a cycle.
        (convolution("CONV2D", (64, 1, 1, 9216), (1, 1, 1, 9216)), 9216 * 64 / 16),
        # 8×8 outputs of 32 channels, 9 taps, three of them a cycle in 16 lanes.
        (convolution("DEPTHWISE_CONV2D", (3, 3, 32, 1), (1, 10, 10, 32)), 64 * 32 * 9 / 48),
        # One output a channel: 25 bytes of weights.
        (convolution("DEPTHWISE_CONV2D", (5, 5, 32, 1), (1, 5, 5, 32)), 800 / 16),
        (product_of((1, 2, 64), (1, 64, 64), constant=True), 64 * 64 / 16),
        (product_of((4, 2, 64), (4, 64, 64), constant=False), 4 * 2 * 64 * 64 / 256),
    ],
)
def test_a_product_takes_its_macs_or_its_weights(graph: Graph, cycles: float) -> None:
    assert op_bound(graph, graph.ops[0], DEFAULT) == cycles == graph_bound(graph, DEFAULT)


def test_without_a_depthwise_engine_its_macs_are_the_arrays() -> None:
    graph = convolution("DEPTHWISE_CONV2D", (3, 3, 32, 1), (1, 10, 10, 32))
    config = replace(DEFAULT, depthwise=False)
    assert op_bound(graph, graph.ops[0], config) == 64 * 32 * 9 / 256


def test_the_sums_of_an_average_count_nothing() -> None:
    graph = convolution("DEPTHWISE_CONV2D", (3, 3, 32, 1), (1, 10, 10, 32), weight=1)
    assert op_bound(graph, graph.ops[0], DEFAULT) == 0
    assert graph_bound(graph, replace(DEFAULT, depthwise=False)) == 0


def test_a_wider_bus_brings_weights_faster() -> None:
    graph = convolution("CONV2D", (64, 1, 1, 9216), (1, 1, 1, 9216))
    assert graph_bound(graph, replace(DEFAULT, bus_bytes=32)) == 9216 * 64 / 32


def test_two_activations_have_no_weights() -> None:
    graph = product_of((1, 2, 64), (1, 64, 64), constant=False)
    assert weight_bytes(graph, graph.ops[0]) == 0


def test_parts_of_a_product_share_its_figure_by_their_results() -> None:
    values = {"a": 90.0, "b.c": 8.0}
    assert shares(["a.y0x0", "", "a.y1x0", "b.c"], [1, 7, 2, 5], values) == [30.0, 0.0, 60.0, 8.0]


@pytest.mark.parametrize(
    ("name", "config"),
    [*((name, "default") for name in GRAPHS), ("depthwise", "micro"), ("network", "odd")],
)
def test_the_layers_of_a_program_have_the_whole_bound(name: str, config: str) -> None:
    done = run_stages(GRAPHS[name](), preset(config))
    info = done.image.info
    expected = graph_bound(done.graph, done.config)
    # What passes do for the machine is no work of the network.
    assert expected == pytest.approx(graph_bound(done.source, done.config))
    assert info["layer_bound"] == pytest.approx(expected, abs=0.01)
    found = sum(layer["layer_bound"] for layer in info["layers"])
    assert found == pytest.approx(expected, abs=0.01 * len(info["layers"]))
    assert sum(layer["macs"] for layer in info["layers"]) == info["macs"]
    assert info["predicted_cycles"] == sum(done.predicted)


LOADS = {"load": 800.0}


def facts(name: str, cycles: float, bound: float, **changes: object) -> LayerFacts:
    layer = LayerFacts(
        name=name, kind="conv", ops=("CONV2D",), module="", product=bound > 0, shape="",
        macs=int(256 * bound), cycles=cycles, bound=bound, busy={"matrix": cycles},
        weight_bytes=0, read_bytes=0, write_bytes=0, runs=0, vectors=int(bound), folds=1,
        columns=64,
    )  # fmt: skip
    return replace(layer, **changes)


def names(groups: list[Group]) -> list[list[str]]:
    return [[layer.name for layer in group.layers] for group in groups]


def test_a_layer_charged_less_than_its_bound_is_grouped_with_the_next() -> None:
    rows = [facts("a", 10, 8), facts("b", 2, 8), facts("c", 12, 6), facts("d", 9, 0)]
    assert names(grouped(rows)) == [["a"], ["b", "c"], ["d"]]


def test_the_last_layer_is_grouped_with_the_one_before() -> None:
    assert names(grouped([facts("a", 10, 4), facts("b", 2, 8)])) == [["a", "b"]]


def test_two_engines_at_once_may_take_less_than_their_bounds() -> None:
    rows = [facts("a", 2, 8, kind="depthwise"), facts("b", 9, 8), facts("c", 10, 9)]
    assert names(grouped(rows)) == [["a", "b"], ["c"]]


def test_parts_of_a_product_are_one_group() -> None:
    rows = [facts("p.y0x0", 9, 8), facts("p.y1x0", 9, 8), facts("q.y0x0", 9, 8)]
    assert names(grouped(rows)) == [["p.y0x0", "p.y1x0"], ["q.y0x0"]]


@pytest.mark.parametrize(
    ("layer", "engine", "why"),
    [
        (facts("a", 900, 100, folds=50), "matrix", "a fold of weights serves 2.0 vectors"),
        (facts("a", 900, 100, columns=3), "matrix", "the result has 3 channels, the array 16"),
        (
            facts("a", 900, 100, vectors=800, folds=4),
            "matrix",
            "12% of the array's elements are in use",
        ),
        (
            facts("a", 900, 0, kind="move", ops=("PAD",), busy=LOADS, runs=4, read_bytes=64),
            "load",
            "copies 64 bytes (16 a run): PAD",
        ),
        (
            facts("a", 900, 9, busy=LOADS, weight_bytes=80, read_bytes=20),
            "load",
            "the bus: 100 bytes, most of them weights (80 of weights)",
        ),
        (facts("a", 900, 9, busy={"vector": 800.0}), "vector", "the epilogue takes longer"),
        (facts("a", 900, 0, kind="pool", busy={"vector": 800.0}), "vector", "a window is read tap"),
        (
            facts("a", 900, 0, kind="fused", busy={"vector": 800.0}),
            "vector",
            "CONV2D on the vector engine while",
        ),
        (facts("a", 900, 0, busy={"store": 800.0}, write_bytes=64), "store", "writes 64 bytes"),
        (facts("a", 900, 0, kind="depthwise", busy={"depthwise": 800.0}), "depthwise", "the depth"),
        (facts("a", 900, 0, busy={"fetch": 800.0}), "fetch", "many small instructions"),
        (
            facts("a", 900, 90, busy={"load": 90.0, "matrix": 50.0}),
            "waits",
            "engines wait for one another and for memory: load, the busiest, works in 10% of",
        ),
    ],
)  # fmt: skip
def test_the_engine_that_works_most_explains_a_loss(
    layer: LayerFacts, engine: str, why: str
) -> None:
    found = cause(Group(layers=(layer,)), DEFAULT)
    assert found.engine == engine
    assert found.why.startswith(why)
    assert found.mend


def test_a_layer_without_a_product_names_what_it_could_be_fused_with() -> None:
    layer = facts("a", 900, 0, busy=LOADS, before="c (conv)", after=("d (pool)",), alone=True)
    found = cause(Group(layers=(layer,)), DEFAULT)
    assert found.why.endswith("; it reads c (conv) and d (pool) reads it")
    assert found.mend.startswith("missing fusion with c (conv): ")
    shared = cause(Group(layers=(replace(layer, alone=False),)), DEFAULT)
    assert not shared.mend.startswith("missing fusion")


def test_neighbours_are_those_that_write_and_read_a_layers_tensors() -> None:
    rows = layer_facts(run_stages(GRAPHS["network"](), preset("small")))
    titles = {f"{row.name} ({row.kind})": row for row in rows}
    assert rows[0].before == "" and rows[-1].after == ()
    for row in rows[1:]:
        assert f"{row.name} ({row.kind})" in titles[row.before].after
        assert row.alone == (len(titles[row.before].after) == 1)


def test_the_losses_are_all_there_is_above_the_bounds() -> None:
    done = run_stages(GRAPHS["network"](), preset("small"))
    found = of_compilation(done)
    assert sum(group.cycles for group in found.groups) == pytest.approx(
        sum(done.predicted), abs=len(done.predicted)
    )
    losses = [loss.whole.loss for loss in found.losses(99)]
    assert losses == sorted(losses, reverse=True) and len(found.losses(2)) == 2
    assert sum(losses) == pytest.approx(sum(g.loss for g in found.groups))
    assert sum(loss.count for loss in found.losses(99)) == len(found.groups)
    assert sum(found.by_engine().values()) == pytest.approx(sum(g.loss for g in found.groups))


def test_groups_that_lose_for_the_same_reason_are_one_loss() -> None:
    rows = [
        facts(name, cycles, 0, kind="pool", ops=("MAX_POOL2D",))
        for name, cycles in (("a", 5.0), ("b", 9.0))
    ]
    rows.append(facts("c", 8.0, 0, kind="pool", ops=("AVG_POOL2D",)))
    groups = tuple(Group(layers=(replace(row, busy={"vector": row.cycles}),)) for row in rows)
    timing = Timing.of(run_stages(GRAPHS["pools"](), DEFAULT).image)
    found = Bound(name="n", config=DEFAULT, timing=timing, groups=groups).losses(9)
    assert [(x.count, x.worst.name, x.whole.loss) for x in found] == [(2, "b", 14.0), (1, "c", 8.0)]


def test_the_json_has_the_keys_of_a_benchmark() -> None:
    work = kernel("matmul", parse_shape("32x64x32", "matmul"), 0)
    row = json.loads(json.dumps(bound_json(bound_of(work.graph, DEFAULT, "m", 200.0), 2)))
    assert row["layer_bound"] == 32 * 64 * 32 / 256
    assert row["share"] == row["layer_bound"] / row["predicted_cycles"]
    assert row["ms"] == pytest.approx(row["predicted_cycles"] / 200e3)
    assert (row["clock_mhz"], row["memory"]) == (200.0, "ideal")
    assert row["peak_dram_bytes"] >= 2 * 32 * 64 + row["constant_bytes"] + row["program_bytes"]
    assert row["constant_bytes"] > 0 and row["program_bytes"] > 0
    assert set(row["losses"][0]) == {
        *("name", "cycles", "layer_bound", "share", "loss", "engine", "why", "mend", "shape"),
        *("count", "kind", "operators"),
    }
    assert [layer["kind"] for layer in row["groups"][0]["layers"]] == ["conv"]


def test_the_command_takes_tosa_files_and_says_what_loses(tmp_path, capsys) -> None:
    path, report = tmp_path / "net.tosa", tmp_path / "bound.json"
    path.write_bytes(to_flatbuffer(GRAPHS["network"]()))
    main_ends(["bound", str(path), "-c", "small", "--clock", "100", "--json", str(report)])
    text = capsys.readouterr().out
    assert "cycles against the layer bound" in text
    assert "what would mend it: " in text and "time (predicted): " in text
    assert json.loads(report.read_text())["config"] == "small"


def main_ends(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0


def test_the_command_takes_kernels_and_refuses_what_is_nothing() -> None:
    code, text, errors = systola("bound", "matmul", "--shape", "16x16x16", "-c", "tiny")
    assert code == 0, errors
    assert "layer bound: 256 cycles" in text
    code, _, errors = systola("bound", "no_such_model")
    assert code == 2 and "no such kernel or model" in errors


def test_the_command_takes_a_users_function(tmp_path, capsys) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "import torch\nfrom torch import nn\n\n\n"
        "def make():\n    return nn.Sequential(nn.Linear(24, 32), nn.ReLU()), torch.randn(2, 24)\n"
    )
    main_ends(["bound", f"{path}:make", "-c", "small", "--losses", "1"])
    text = capsys.readouterr().out
    assert f"{path}:make on small" in text.replace("\n", "") and "linear" in text
    assert text.count("what would mend it: ") == 1
