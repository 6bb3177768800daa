"""What models do besides computing: branches, writes, aliases, gradients, strange inputs."""

import pytest
import torch
from torch import nn
from torch_backend_helpers import OPTIONS, compiled, pcc, report, rows

from sw.torch_backend.entry import systola as backend


class Model(nn.Module):
    """A linear layer inside what the test wants."""

    def __init__(self, function, features=8):
        super().__init__()
        self.layer = nn.Linear(features, 8)
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(self.layer, *args, **kwargs)


def model(function, features=8):
    torch.manual_seed(0)
    return Model(function, features).eval()


def totals(fast):
    return report(fast)["totals"]


@torch.no_grad()
def test_a_branch_on_data_breaks_the_graph_and_both_sides_are_right():
    def branch(layer, x):
        y = layer(x)
        return layer(torch.relu(y)) if x.sum() > 0 else layer(-y)

    slow = model(branch)
    fast = compiled(slow)
    for sign in (1, -1, 1):
        x = torch.rand(4, 8) * sign
        assert pcc(fast(x), slow(x)) >= 0.99
    found = totals(fast)
    assert found["graphs"] == 3 and found["npu_nodes"] >= 3 and found["eager_calls"] == 0


@torch.no_grad()
def test_arguments_by_name_and_results_of_every_kind():
    def several(layer, x, *, scale=2.0, other=None):
        y = layer(x) * scale
        return {"y": y, "none": other, "size": x.shape[0] * 3, "two": (y + 1.0, x.view(-1))}

    slow = model(several)
    fast = compiled(slow)
    x = torch.randn(3, 8)
    got, exact = fast(x, scale=0.5), slow(x, scale=0.5)
    assert got["none"] is None and got["size"] == 9
    assert pcc(got["y"], exact["y"]) >= 0.99 and pcc(got["two"][0], exact["two"][0]) >= 0.99
    # A view of an input stays one.
    assert got["two"][1].data_ptr() == x.data_ptr()
    assert totals(fast)["npu_nodes"] >= 1


@torch.no_grad()
def test_writes_to_inputs_happen_once_and_after_they_are_read():
    def write(layer, x, state):
        y = layer(x)
        x.add_(1.0)
        state.copy_(y)
        y.mul_(2.0)
        return layer(y) + x

    slow = model(write)
    fast = compiled(slow)
    x, state = torch.randn(4, 8), torch.zeros(4, 8)
    x2, state2 = x.clone(), state.clone()
    for _ in range(3):
        got, exact = fast(x, state), slow(x2, state2)
        assert (
            (x - x2).abs().max() < 0.01 and pcc(state, state2) >= 0.99 and pcc(got, exact) >= 0.99
        )
    assert totals(fast)["npu_nodes"] >= 1 and totals(fast)["eager_calls"] == 0


@torch.no_grad()
def test_inputs_need_not_be_contiguous_and_results_have_the_strides_of_eager_mode():
    slow = model(lambda layer, x: layer(x).transpose(0, 1))
    fast = compiled(slow)
    for x in (torch.randn(8, 4).T, torch.randn(4, 16)[:, ::2]):
        got, exact = fast(x), slow(x)
        assert pcc(got, exact) >= 0.99 and got.stride() == exact.stride()
    assert totals(fast)["npu_nodes"] >= 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@torch.no_grad()
def test_other_float_types_run_on_the_cpu_with_the_reason(dtype):
    slow = model(lambda layer, x: layer(x)).to(dtype)
    fast = compiled(slow)
    x = torch.randn(4, 8, dtype=dtype)
    got = fast(x)
    assert got.dtype == dtype and torch.equal(got, slow(x))
    ((_, where, reason),) = rows(fast)
    assert where == "cpu" and str(dtype).removeprefix("torch.") in reason


@torch.no_grad()
def test_masks_of_bool_and_token_numbers():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.project = nn.Embedding(50, 16), nn.Linear(16, 48)

        def forward(self, ids, mask):
            x = self.project(self.table(ids))
            q, k, v = (p.unflatten(-1, (2, 8)).transpose(1, 2) for p in x.chunk(3, -1))
            y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return y.transpose(1, 2).flatten(2)

    torch.manual_seed(0)
    slow = Attention().eval()
    fast = compiled(slow)
    for keep in (5, 3):
        ids = torch.randint(0, 50, (2, 6))
        mask = (torch.arange(6) < keep).expand(2, 1, 1, 6)
        assert pcc(fast(ids, mask), slow(ids, mask)) >= 0.99
    assert {target: where for target, where, _ in rows(fast)}[
        "aten.scaled_dot_product_attention.default"
    ].startswith("npu")
    assert totals(fast)["runs"] == 2


@torch.no_grad()
def test_parameters_that_change_are_quantized_again():
    slow = model(lambda layer, x: layer(x))
    fast = compiled(slow)
    x = torch.randn(4, 8)
    fast(x)
    slow.layer.weight.neg_()
    assert pcc(fast(x), slow(x)) >= 0.99
    slow.layer.weight.data = torch.randn(8, 8)
    assert pcc(fast(x), slow(x)) >= 0.99
    slow.load_state_dict(model(lambda layer, x: x, 8).state_dict())
    assert pcc(fast(x), slow(x)) >= 0.99
    fast(x)
    assert totals(fast)["runs"] == 5 and totals(fast)["parts"] == 4


@torch.no_grad()
def test_layers_of_one_class_have_their_own_parameters():
    models = [model(lambda layer, x: torch.relu(layer(x))) for _ in range(2)]
    models[1].layer.weight.neg_()
    fast = [compiled(models[0])]
    fast.append(torch.compile(models[1], backend=backend, options=dict(OPTIONS)))
    x = torch.randn(4, 8)
    for one, slow in zip(fast * 2, models * 2):
        assert pcc(one(x), slow(x)) >= 0.99


def test_without_no_grad_results_say_that_they_have_no_gradient():
    slow = model(lambda layer, x: layer(x))
    fast = compiled(slow)
    x = torch.randn(4, 8)
    y = fast(x)
    assert y.requires_grad and pcc(y, slow(x)) >= 0.99
    with pytest.raises(Exception, match="the NPU computes no gradients"):
        y.sum().backward()
    assert totals(fast)["runs"] == 1


def test_inputs_that_want_gradients_run_in_eager_mode():
    slow = model(lambda layer, x: layer(x).tanh())
    fast = compiled(slow)
    grads = []
    for one in (fast, slow):
        x = torch.ones(4, 8, requires_grad=True)
        one(x).sum().backward()
        grads.append(x.grad)
    assert torch.equal(*grads)
    ((reason, count),) = report(fast)["graphs"][0]["eager"].items()
    assert count == 1 and "gradient" in reason


def test_training_mode_runs_in_eager_mode():
    slow = model(lambda layer, x: nn.functional.dropout(layer(x), 0.5, training=True))
    fast = compiled(slow)
    fast(torch.randn(4, 8)).sum().backward()
    assert slow.layer.weight.grad is not None
    ((reason, _),) = report(fast)["graphs"][0]["eager"].items()
    assert "training mode" in reason


@torch.no_grad()
def test_dropout_that_stays_on_is_random_each_time():
    slow = model(lambda layer, x: nn.functional.dropout(layer(x), 0.5, training=True))
    fast = compiled(slow)
    x = torch.ones(16, 8)
    a, b = fast(x), fast(x)
    assert not torch.equal(a == 0, b == 0)
    assert {t: w for t, w, _ in rows(fast)}["aten.linear.default"] == "npu 0"


@torch.no_grad()
def test_a_batch_norm_in_training_mode_keeps_its_statistics():
    def norm():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)).train()

    slow, other = norm(), norm()
    fast = compiled(other)
    for _ in range(3):
        x = torch.randn(16, 8)
        assert pcc(fast(x), slow(x)) >= 0.99
    assert pcc(other[1].running_mean, slow[1].running_mean) >= 0.99
    assert int(other[1].num_batches_tracked) == 3
    assert totals(fast)["runs"] >= 1


@torch.no_grad()
def test_values_that_are_no_numbers_run_on_the_cpu():
    slow = model(lambda layer, x: layer(x))
    fast = compiled(slow)
    x = torch.randn(4, 8)
    fast(x)
    bad = x.clone()
    bad[0, 0] = float("nan")
    assert torch.equal(fast(bad).isnan(), slow(bad).isnan())
    fast(x)
    (part,) = report(fast)["graphs"][0]["variants"][0]["parts"]
    assert part["on_cpu"] == {"an input has NaN or infinite values": 1} and part["runs"] == 2


@torch.no_grad()
def test_inputs_that_outgrow_the_calibration_calibrate_again():
    slow = model(lambda layer, x: torch.relu(layer(x)))
    fast = compiled(slow)
    for size in (0.0, 1.0, 1.0, 50.0):
        x = torch.randn(16, 8) * size
        got, exact = fast(x), slow(x)
        if size:
            assert pcc(got, exact) >= 0.99
    (part,) = report(fast)["graphs"][0]["variants"][0]["parts"]
    assert part["calibrations"] == 3 and part["runs"] == 4


@pytest.mark.parametrize("how", ["dynamic", "marked"])
@torch.no_grad()
def test_sizes_that_are_symbols(how):
    slow = model(lambda layer, x: layer(x).reshape(x.shape[0] * 2, -1) * x.shape[0])
    fast = compiled(slow, **({"dynamic": True} if how == "dynamic" else {}))
    for batch in (2, 3, 5):
        x = torch.randn(batch, 8)
        if how == "marked":
            torch._dynamo.mark_dynamic(x, 0)
        got, exact = fast(x), slow(x)
        assert got.shape == exact.shape and pcc(got, exact) >= 0.99
    assert totals(fast)["graphs"] == 1 and totals(fast)["parts"] == totals(fast)["runs"] == 3


@torch.no_grad()
def test_numbers_that_change_are_constants_of_their_variant():
    slow = model(lambda layer, x, scale: layer(x) * scale + 1.0)
    fast = compiled(slow, dynamic=True)
    x = torch.randn(4, 8)
    for scale in (0.5, 2.5, -1.5):
        assert (fast(x, scale) - slow(x, scale)).abs().max() < 0.05
    assert totals(fast)["runs"] == 3


@torch.no_grad()
def test_an_empty_batch_and_a_graph_without_inputs():
    slow = model(lambda layer, x: layer(x))
    fast = compiled(slow)
    assert fast(torch.randn(0, 8)).shape == (0, 8)
    slow = model(lambda layer: layer.weight + 1.0)
    assert torch.equal(compiled(slow)(), slow())


def test_inference_mode():
    slow = model(lambda layer, x: layer(x))
    fast = compiled(slow)
    with torch.inference_mode():
        x = torch.randn(4, 8)
        assert pcc(fast(x), slow(x)) >= 0.99
    assert totals(fast)["runs"] == 1


@torch.no_grad()
def test_autocast_runs_in_eager_mode():
    slow = model(lambda layer, x: layer(x))
    fast = compiled(slow)
    x = torch.randn(4, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(fast(x), slow(x))
    assert "autocast" in next(iter(report(fast)["graphs"][0]["eager"]))


@torch.no_grad()
def test_other_words_for_what_the_importer_knows():
    """An empty cache, a padding, scores on top of a computed bias."""

    def words(layer, x, cache):
        y = layer(torch.cat([cache, nn.functional.pad(x, (0, 0, 1, 1))], 1))
        scores = torch.baddbmm(y @ y.transpose(1, 2), y, y.transpose(1, 2), beta=0.5, alpha=0.25)
        return torch.softmax(scores, -1) @ y

    slow = model(words)
    fast = compiled(slow)
    x, cache = torch.randn(2, 4, 8), torch.zeros(2, 0, 8)
    assert pcc(fast(x, cache), slow(x, cache)) >= 0.99
    assert totals(fast)["cpu_nodes"] == sum("move" in why for _, _, why in rows(fast)) <= 2


@torch.no_grad()
def test_tensors_of_one_number_and_integers_of_64_bits():
    def scaled(layer, x, factor, count):
        y = layer(x) * factor
        return y, count * 3 + 2**40, y.argmax(-1), y.max(), (y > 0).sum()

    slow = model(scaled)
    fast = compiled(slow)
    for factor in (0.5, 0.7):
        x, count = torch.randn(4, 8), torch.tensor(2**35)
        got, exact = fast(x, torch.tensor(factor), count), slow(x, torch.tensor(factor), count)
        assert pcc(got[0], exact[0]) >= 0.99 and abs(got[3] - exact[3]) < 0.05
        assert int(got[1]) == 3 * 2**35 + 2**40
        for a, b in zip(got, exact):
            assert a.dtype == b.dtype and a.shape == b.shape
        assert torch.equal(got[2], exact[2]) and abs(int(got[4]) - int(exact[4])) <= 1
    assert totals(fast)["runs"] >= 2
