"""The backend by its name, in processes that import torch (and transformers) only."""

import pytest

from tests.torch_backend_helpers import metadata, run_script

HEAD = """
import sys
import torch
from torch import nn
OPTIONS = {"config": "tiny", "device": "golden", "verify": True, "report": "report.json"}
def pcc(a, b):
    return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]).double())[0, 1])
def check(model, *batches):
    assert not {m for m in sys.modules if m.split(".")[0] in ("sw", "systola", "spec")}
    fast = torch.compile(model, backend="systola", options=OPTIONS)
    with torch.no_grad():
        for args, kwargs in batches:
            got, exact = fast(*args, **kwargs), model(*args, **kwargs)
            if not isinstance(exact, torch.Tensor):
                got, exact = got[0], exact[0]
            assert got.shape == exact.shape and pcc(got, exact) >= 0.99, pcc(got, exact)
            print(tuple(got.shape), pcc(got, exact))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return metadata(tmp_path_factory.mktemp("metadata"))


def test_the_entry_point_is_found(site, tmp_path):
    code = """
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8)).eval()
check(model, *(((torch.randn(b, 16),), {}) for b in (2, 3, 5)))
"""
    _, found = run_script(HEAD + code, site, tmp_path)
    totals = found["totals"]
    assert totals["npu_nodes"] >= 1 and totals["runs"] == totals["verified"] == 3
    assert totals["instructions"]["matrix"] > 0
