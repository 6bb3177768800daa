"""The built-in networks: their sizes, data, cache, and a small one through everything."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from spec import preset
from sw.compiler.frontend.quantized import QuantizedModel
from sw.compiler.tosa.interpreter import run_graph
from sw.measure.bench_health import activation_health
from sw.measure.model_runs import run_model, verify_model
from sw.models import photographs, sounds, store, tiny, vision
from sw.models.catalog import ModelError, compile_model, get_model, pcc, pcc_between
from sw.models.table import NETWORKS
from sw.runtime.golden import GoldenDevice
from sw.runtime.simulator.cache import BuildCache

MODULES: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...]]] = {
    "resnet18": (vision._resnet18, (1, 3, 224, 224)),
    "resnet50": (vision._resnet50, (1, 3, 224, 224)),
    "mobilenet_v1": (vision._mobilenet_v1, (1, 3, 224, 224)),
    "mobilenet_v2": (vision._mobilenet_v2, (1, 3, 224, 224)),
    "resnet8": (tiny.ResNet8, (1, 3, 32, 32)),
    "ds_cnn": (tiny.DsCnn, (1, 1, 49, 10)),
    "vww": (tiny.Vww, (1, 3, 96, 96)),
    "ad": (tiny.Autoencoder, (1, 640)),
}


@pytest.mark.parametrize("name", MODULES)
def test_multiply_accumulates_are_those_of_the_published_networks(name: str) -> None:
    """Counted by PyTorch on the float module; building a model compares the graph's with it."""
    build, shape = MODULES[name]
    with torch.device("meta"):
        module = build().eval()
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            module(torch.empty(shape))
    assert counter.get_total_flops() == 2 * NETWORKS[name].macs


def test_the_table_has_every_network_of_the_benchmarks() -> None:
    millions = {name: round(network.macs / 1e6, 3) for name, network in NETWORKS.items()}
    assert millions == {
        "digits": 0.309,
        "resnet18": 1814.073,
        "resnet50": 4089.184,
        "mobilenet_v1": 568.740,
        "mobilenet_v2": 300.774,
        "resnet8": 12.502,
        "ds_cnn": 2.657,
        "vww": 7.490,
        "ad": 0.264,
    }


def test_photographs_are_deterministic_and_all_different() -> None:
    some, others = photographs.crops(24, 24, 7), photographs.crops(24, 24, 8)
    assert np.array_equal(some, photographs.crops(24, 24, 7))
    assert some.dtype == np.float32 and some.min() >= 0 and some.max() <= 1
    rows = np.concatenate([some, others]).reshape(48, -1)
    assert len(np.unique(rows, axis=0)) == 48
    assert rows.std(axis=1).min() > 0.02


@pytest.mark.parametrize(
    ("make", "shape"), [(sounds.word_features, (1, 49, 10)), (sounds.machine_features, (640,))]
)
def test_sounds_are_deterministic_and_differ(make, shape: tuple[int, ...]) -> None:
    first = make(3, 5)
    assert first.shape == (3, *shape) and first.dtype == np.float32
    assert np.array_equal(first, make(3, 5))
    rows = first.reshape(3, -1)
    assert abs(pcc(rows[0], rows[1])) < 0.99
    assert not np.array_equal(first, make(3, 6))


@pytest.mark.parametrize("name", ["ad", "ds_cnn"])
def test_a_small_network_is_exact_and_alive(name: str) -> None:
    model = get_model(name)
    report = verify_model(model, preset("small"), batch=2, limit=4)
    assert report.reference is not None and report.reference.exact
    assert report.extra["images"] == 4
    assert report.extra["pcc"] >= 0.999
    assert report.extra["pcc_between_images"] < 0.99
    for first in range(2):
        assert not activation_health(model.imported().graph, model.inputs(first))["dead"]


def test_a_batch_gives_each_sample_the_integers_it_has_alone() -> None:
    model = get_model("ds_cnn")
    together = model.logits(run_graph(model.imported(5).graph, model.inputs(3, 5)))
    alone = [model.logits(run_graph(model.imported().graph, model.inputs(3 + i))) for i in range(5)]
    assert np.array_equal(together, np.concatenate(alone))
    with pytest.raises(ModelError, match="samples 28…32: ds_cnn has 32, in runs of 1"):
        model.inputs(28, 5)


def test_reports_without_labels_compare_with_pytorch() -> None:
    model = get_model("ad")
    found = run_model(model, GoldenDevice(preset("tiny"))).to_json()
    assert found["images"] == 2 and found["macs"] == 2 * 264_192
    assert found["pcc"] >= 0.999 and found["pcc_fp32"] > 0.9
    assert "accuracy_int8" not in found
    between = pcc_between(model.logits_pt2e(2))
    assert found["pcc_between_images"] == between and between is not None and between < 0.99


def test_images_say_where_the_numbers_come_from() -> None:
    image = compile_model(get_model("ad"), preset("tiny"), batch=3)
    assert image.info["seed"] == 2026
    assert image.info["data"] == sounds.MACHINES
    assert image.info["calibration_samples"] == 32
    assert image.info["packages"]["torch"].startswith("2.")
    assert image.inputs[0].shape == (3, 640)


def test_the_second_start_needs_no_pytorch() -> None:
    get_model("ad")
    code = (
        "import sys; from sw.cli.main import main\n"
        "try: main(['run', 'ad', '--config', 'tiny', '--limit', '1'])\n"
        "except SystemExit as end: assert not end.code\n"
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False False"


class _Builder:
    """Stands for the slow way; counts how often it is gone."""

    def __init__(self) -> None:
        self.model = get_model("ad").stored
        self.calls = 0

    def __call__(self, network: object) -> QuantizedModel:
        self.calls += 1
        return self.model


def test_a_network_is_built_once_and_again_where_its_entry_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = _Builder()
    monkeypatch.setenv("SYSTOLA_CACHE", str(tmp_path))
    network = NETWORKS["ad"]
    built = store.load_network(network, build)
    loaded = store.load_network(network, build)
    assert build.calls == 1
    assert str(built.imported.graph) == str(loaded.imported.graph)
    assert dict(built.info) == dict(loaded.info)
    path = tmp_path / "entries" / store.key(network) / store.FILE
    path.write_bytes(path.read_bytes()[:1000])
    again = store.load_network(network, build)
    assert build.calls == 2 and str(again.imported.graph) == str(built.imported.graph)
    assert store.load_network(network, build) is not again and build.calls == 2


def test_entries_are_named_by_everything_that_decides_the_integers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = NETWORKS["ad"]
    keys = {store.key(network), store.key(replace(network, seed=1)), store.key(NETWORKS["vww"])}
    monkeypatch.setattr(store, "versions", lambda: {"torch": "0"})
    keys.add(store.key(network))
    monkeypatch.setattr(store, "_sources", list)
    keys.add(store.key(network))
    assert len(keys) == 5


def test_without_a_cache_networks_are_built_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = _Builder()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SYSTOLA_CACHE", str(tmp_path / "file"))
    for _ in range(2):
        store.load_network(NETWORKS["ad"], build)
    assert build.calls == 2


def test_networks_share_the_cache_of_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = _Builder()
    monkeypatch.setenv("SYSTOLA_CACHE", str(tmp_path))
    store.load_network(NETWORKS["ad"], build)
    assert BuildCache(limit=0).evict() == [store.key(NETWORKS["ad"])]
