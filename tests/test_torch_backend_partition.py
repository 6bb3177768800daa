"""The partitioner on random graphs: parts that run one after another, and no more than needed."""

import operator

import pytest
import torch
from executorch_models import quantized
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.fx import Graph, GraphModule
from torch_backend_helpers import compiled, pcc, report

import systola
from sw.compiler.errors import CompileError
from sw.compiler.frontend.importing import import_model
from sw.torch_backend.extract import assemble, extract
from sw.torch_backend.partition import partition, whole

FUNCTIONS = (operator.add, operator.mul, operator.sub)


@st.composite
def graphs(draw):
    """(module of random sums, which of its operators the NPU takes)."""
    graph = Graph()
    nodes = [graph.placeholder(f"x{i}") for i in range(draw(st.integers(1, 3)))]
    reasons = {}
    for _ in range(draw(st.integers(1, 14))):
        a, b = (draw(st.sampled_from(nodes)) for _ in range(2))
        node = graph.call_function(draw(st.sampled_from(FUNCTIONS)), (a, b))
        reasons[node] = draw(st.sampled_from(["", "no"]))
        nodes.append(node)
    for node in nodes:
        node.meta["val"] = torch.zeros(())
    last = nodes[-draw(st.integers(1, 3)) :]
    graph.output(tuple(last))
    return GraphModule({}, graph), reasons


def alternations(module, reasons):
    """The most NPU parts that any path meets: a lower bound of their number."""
    most, at = 0, {}
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        # (parts so far on the longest path, whether it ends in one)
        best = max((at[n] for n in node.all_input_nodes if n in at), default=(0, False))
        inside = not reasons[node]
        parts = max(
            (p + (inside and not ends) for n in node.all_input_nodes if n in at
             for p, ends in [at[n]]),
            default=int(inside),
        )  # fmt: skip
        assert best[0] <= parts
        at[node] = (parts, inside)
        most = max(most, parts)
    return most


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_random_graphs_compute_the_same_in_the_fewest_parts(drawn):
    module, reasons = drawn
    split = partition(list(module.graph.nodes), set(), reasons)
    inside = [n for part in split.parts for n in part]
    assert sorted(n.name for n in inside) == sorted(n.name for n, r in reasons.items() if not r)
    assert len(split.parts) == alternations(module, reasons)
    extracts = [extract(module, part, set()) for part in split.parts]
    runners = {f"npu_{i}": made.module for i, made in enumerate(extracts)}
    whole = assemble(module, split, extracts, runners, set())
    count = sum(n.op == "placeholder" for n in module.graph.nodes)
    inputs = torch.randn(count, dtype=torch.float64).unbind()
    for got, exact in zip(whole(*inputs), module(*inputs)):
        assert torch.equal(got, exact) or bool(got.isnan() & exact.isnan())


FILLS = {
    "zeros_like": torch.zeros_like,
    "ones_like": torch.ones_like,
    "full_like": lambda y: torch.full_like(y, 3.0),
    "new_zeros": lambda y: y.new_zeros(4, 8),
    "new_ones": lambda y: y.new_ones(4, 8),
    "new_full": lambda y: y.new_full((4, 8), 2.0),
    "empty_like": lambda y: torch.empty_like(y).fill_(2.0),
    "integers": lambda y: torch.ones_like(y, dtype=torch.int64),
    "transposed": lambda y: torch.ones_like(y.transpose(0, 1)).transpose(0, 1),
}


class Filled(torch.nn.Module):
    def __init__(self, fill):
        super().__init__()
        self.layer, self.fill = torch.nn.Linear(8, 8), fill

    def forward(self, x):
        y = self.layer(x).relu()
        return y, torch.cumprod(self.fill(y) + 1, 1), self.fill(y)


@pytest.mark.parametrize("name", FILLS)
@torch.no_grad()
def test_constants_that_take_their_shape_from_a_value_of_the_npu(name):
    model = Filled(FILLS[name])
    fast = compiled(model)
    x = torch.randn(4, 8)
    got, exact = fast(x), model(x)
    for a, b in zip(got[1:], exact[1:]):
        assert torch.equal(a, b) and a.dtype == b.dtype and a.stride() == b.stride()
    totals = report(fast)["totals"]
    assert (totals["eager_calls"], totals["npu_nodes"], totals["cpu_nodes"]) == (0, 2, 0)


class Hashed(torch.nn.Module):
    """Rows of a table at the numbers that remain of products beyond 32 bits."""

    def __init__(self):
        super().__init__()
        self.rows = torch.nn.Embedding(50, 8)

    def forward(self, ids):
        large = ids * 100_003 * 100_019
        return self.rows(torch.div(large, 100_003 * 100_019, rounding_mode="floor")).tanh()


@torch.no_grad()
def test_integers_that_calibration_saw_beyond_32_bits_stay_on_the_cpu():
    torch.manual_seed(0)
    model, ids = Hashed(), torch.arange(44, 50)[None]
    with pytest.raises(CompileError, match=r"mul_1: integers reach 4.901e\+11 in calibration"):
        import_model(model, (ids,))
    fast = compiled(model)
    assert pcc(fast(ids), model(ids)) >= 0.999
    totals = report(fast)["totals"]
    assert (totals["eager_calls"], totals["npu_nodes"]) == (0, 2)


class Moved(torch.nn.Module):
    """Moves before and behind what computes."""

    def __init__(self, results):
        super().__init__()
        self.layer, self.results = torch.nn.Linear(8, 8), results

    def forward(self, x):
        return self.results(x, self.layer(x.transpose(0, 1).flip(0)).relu())


RESULTS = {
    "one memory each": (lambda x, y: (y.reshape(4, 16), y[:, None] + 1), 0),
    "a view of an input": (lambda x, y: (y, x.view(-1)), 3),
    "two views of one result": (lambda x, y: (y[0], y[1]), 2),
    "integers": (lambda x, y: (y, (y > 0).sum(1)), 2),
}


@pytest.mark.parametrize("name", RESULTS)
@torch.no_grad()
def test_a_graph_is_one_program_unless_its_results_forbid_it(name):
    results, on_cpu = RESULTS[name]
    torch.manual_seed(0)
    model, x = Moved(results), torch.randn(8, 8)
    fast = compiled(model)
    for got, exact in zip(fast(x), model(x)):
        assert got.shape == exact.shape and got.stride() == exact.stride()
        assert pcc(got, exact) >= 0.99
    totals = report(fast)["totals"]
    assert (totals["eager_calls"], totals["cpu_nodes"]) == (0, on_cpu)


def test_results_of_one_operator_are_tensors_of_their_own_but_parts_of_a_split_are_not():
    def graph(target, *args):
        made = Graph()
        x = made.placeholder("x")
        both = made.call_function(target, (x, *args))
        values = [made.call_function(operator.getitem, (both, i)) for i in range(2)]
        sums = [made.call_function(torch.ops.aten.relu.default, (values[0],)), values[1]]
        made.output(tuple(sums if target is torch.ops.aten.split.Tensor else values))
        for node in made.nodes:
            node.meta["val"] = torch.zeros(2)
        return list(made.nodes)

    own = graph(torch.ops.aten.native_layer_norm.default)
    assert whole(own, set(), {}) is not None
    assert whole(graph(torch.ops.aten.split.Tensor, 1), set(), {}) is None  # a view of the input


class Between(nn.Module):
    """Two layers with a function between them that the NPU lacks."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)

    def forward(self, x):
        y = self.first(x).relu()
        return self.second(torch.special.bessel_j0(y))


def test_integers_of_a_quantized_model_stay_on_one_side():
    """Quantize nodes are no reason for the CPU; a part takes and gives floats on their grids."""
    torch.manual_seed(0)
    images = torch.randn(2, 3, 8, 8)
    program = quantized(Between().eval(), images)
    module = systola.partition(program, (images[:1],), systola.preset("tiny"))
    where = {row["name"]: row["where"] for row in module.data["nodes"]}
    assert {where[n] for n in where if n.startswith("conv2d")} == {"npu 0", "npu 1"}
    assert where["quantize_per_tensor"] == where["dequantize_per_tensor"] == "npu 0"
    assert "cpu" in where.values()
    inside = [n.meta["val"] for part in module.variant.parts for n in part.nodes]
    crossing = [t for part in module.variant.parts for t in (*part.examples, *part.results)]
    assert all(t.is_floating_point() for t in crossing)
    assert any(t.dtype is torch.int8 for t in inside)
    (found,), exact = module.run((images[1:],)), program.module()(images[1:])
    assert torch.allclose(found, exact, atol=0.02 * float(exact.abs().max()))
