"""The backend by its name, in a process that imports torch and transformers only."""

import pytest
from torch_backend_helpers import ROOT, metadata, run_script

EXAMPLE = ROOT / "examples" / "torch_compile.py"

HEAD = """
import sys
import torch
from torch import nn

assert not {m for m in sys.modules if m.split(".")[0] in ("sw", "systola", "spec")}
torch.manual_seed(0)

def pcc(a, b):
    return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]).double())[0, 1])

@torch.no_grad()
def check(name, model, make, config="small", device="golden", batches=(2, 3, 5), top=False):
    options = {"config": config, "device": device, "verify": True, "cache": False,
               "report": name + ".json"}
    decided = []
    fast = torch.compile(model.eval(), backend="systola", options=options)
    for batch in batches:
        inputs = make(batch)
        got, exact = fast(**inputs), model(**inputs)
        if not isinstance(exact, torch.Tensor):
            got, exact = got[0], exact[0]
        assert got.shape == exact.shape and pcc(got, exact) >= 0.99, (name, batch, pcc(got, exact))
        if top:
            first, second = exact.topk(2, -1).values.unbind(-1)
            clear = first - second > 0.02 * (exact.amax() - exact.amin())
            decided.append(int(clear.sum()))
            assert torch.equal(got.argmax(-1)[clear], exact.argmax(-1)[clear]), (name, batch)
    assert not top or sum(decided) > 0
"""

RESNET = """
from transformers import ResNetConfig, ResNetForImageClassification

def resnet(depths, sizes, pixels, classes):
    config = ResNetConfig(depths=depths, layer_type="basic", hidden_sizes=sizes,
                          embedding_size=sizes[0], num_labels=classes)
    model = ResNetForImageClassification(config)
    for module in model.modules():  # statistics as after training, not zero and one
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2.0)
    return model, lambda batch: {"pixel_values": torch.randn(batch, 3, pixels, pixels)}
"""

BERT = """
from transformers import BertConfig, BertForSequenceClassification

def bert():
    config = BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=64, num_labels=5)
    def make(batch):
        mask = torch.ones(batch, 12, dtype=torch.long)
        mask[0, 8:] = 0
        return {"input_ids": torch.randint(0, 100, (batch, 12)), "attention_mask": mask}
    return BertForSequenceClassification(config), make
"""

OWN = """
class Unsupported(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(16, 32), nn.Linear(32, 8)
    def forward(self, x):
        y = torch.linalg.vector_norm(x, dim=-1, keepdim=True) + torch.cumprod(self.first(x), -1)
        return self.last(torch.nn.functional.gelu(y.cummax(-1).values))

class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(16, 8), nn.Linear(16, 8)
    def forward(self, x):
        y = x.tanh()
        return self.left(y) if x.sum() > 0 else self.right(y)

sign = iter((1, -1, 1, -1, 1, -1))
check("unsupported", Unsupported(), lambda b: {"x": torch.randn(b, 16)})
check("branch", Branch(), lambda b: {"x": torch.rand(b, 16) * next(sign)}, batches=(2, 3, 5, 2))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return metadata(tmp_path_factory.mktemp("metadata"))


def worked(found):
    """Totals of a report in which the NPU has done something, all of it verified."""
    totals = found["totals"]
    assert totals["npu_nodes"] >= 1 and totals["eager_calls"] == 0
    assert totals["runs"] == totals["verified"] > 0 and totals["bytes_in"] > 0
    busy = totals["instructions"]
    assert busy["load"] > 0 and busy["store"] > 0 and busy["vector"] + busy["matrix"] > 0
    return totals


def test_models_run_by_the_name_of_the_backend_alone(site, tmp_path):
    code = HEAD + RESNET + BERT + OWN + "check('bert', *bert(), top=True)\n"
    code += "check('resnet', *resnet([1, 1], [16, 32], 32, 10), top=True)\n"
    # The example is such a process too; it exits with an error where results are wrong.
    code += f"import runpy\nsys.argv = [{str(EXAMPLE)!r}, '--config', 'tiny']\n"
    code += "try:\n    runpy.run_path(sys.argv[0], run_name='__main__')\n"
    code += "except SystemExit as done:\n    assert not done.code\n"
    found = run_script(code, site, tmp_path)
    assert sorted(found) == ["bert", "branch", "resnet", "unsupported"]
    totals = {name: worked(report) for name, report in found.items()}
    assert all(t["instructions"]["matrix"] > 0 for t in totals.values())
    nodes = [n for g in found["unsupported"]["graphs"] for v in g["variants"] for n in v["nodes"]]
    assert {n["where"] for n in nodes} > {"cpu", "npu 0"}
    assert {n["reason"] for n in nodes if "cumprod" in n["target"] or "cummax" in n["target"]} == {
        "operator aten.cumprod.default has no rule",
        "operator aten.cummax.default has no rule",
    }
    assert found["branch"]["totals"]["graphs"] >= 3
    # Two thirds and more of each network are the NPU's, in one part or nearly so.
    for name in ("bert", "resnet"):
        assert totals[name]["npu_nodes"] > 2 * totals[name]["cpu_nodes"]


@pytest.mark.rtl
def test_a_model_runs_on_the_rtl(site, tmp_path):
    code = HEAD + "model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))\n"
    code += "make = lambda batch: {'input': torch.randn(batch, 16)}\n"
    code += "check('mlp', model, make, 'tiny', 'rtl', batches=(2, 3, 2))\n"
    totals = worked(run_script(code, site, tmp_path)["mlp"])
    assert totals["cycles"] > 1000 and totals["runs"] == 3


@pytest.mark.slow
def test_resnet18_of_full_depth_and_width(site, tmp_path):
    code = HEAD + RESNET
    code += "model = resnet([2, 2, 2, 2], [64, 128, 256, 512], 96, 1000)\n"
    code += "check('resnet18', *model, 'default', batches=(2,))\n"
    worked(run_script(code, site, tmp_path)["resnet18"])
