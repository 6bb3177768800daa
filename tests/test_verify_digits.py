"""The network `digits`: trained on real handwriting, quantized, compiled, verified."""

from pathlib import Path

import numpy as np
import pytest
import torch

from spec import preset
from sw.compiler.tosa.interpreter import run_graph
from sw.measure.model_runs import run_model, verify_model
from sw.models import digits
from sw.models.catalog import Model, ModelError, get_model, pcc
from sw.runtime.golden import GoldenDevice
from sw.runtime.verify import verify


@pytest.fixture(scope="module")
def model() -> Model:
    return get_model("digits")


def test_all_test_images_are_classified_as_well_as_in_float(model: Model) -> None:
    graph = model.imported().graph
    count = model.count
    assert count == 360
    assert model.labels is not None
    outputs = [model.logits(run_graph(graph, model.inputs(i))) for i in range(count)]
    logits = np.concatenate(outputs)
    int8 = (logits.argmax(1) == model.labels).mean()
    fp32 = (model.logits_fp32(count).argmax(1) == model.labels).mean()
    assert int8 >= 0.95
    assert abs(int8 - fp32) <= 0.01
    reference = model.logits_pt2e(count)
    # Random logits would correlate too if all images looked alike: they do not.
    assert pcc(reference[0], reference[1]) < 0.99
    assert pcc(logits, reference) >= 0.999


@pytest.mark.parametrize("batch", [1, 3])
def test_golden_model_equals_the_reference_model(model: Model, batch: int) -> None:
    report = verify_model(model, preset("small"), batch=batch, limit=4)
    assert report.reference is not None
    assert report.reference.exact
    assert report.reference.elements == 10 * batch * -(-4 // batch)
    assert report.to_json()["reference_exact"] is True


def test_the_whole_test_set_in_one_graph_equals_the_reference_model(model: Model) -> None:
    graph = model.imported(360).graph
    inputs = model.inputs(0, 360)
    result = verify(graph, inputs, run_graph(graph, inputs))
    assert result.reference_exact and result.compared == 3600


def test_run_on_golden_reports_accuracy_and_claims_no_comparison(model: Model) -> None:
    found = run_model(model, GoldenDevice(preset("tiny")), limit=5).to_json()
    assert found["bit_exact"] is None and found["reference_exact"] is None
    assert found["images"] == 5
    assert found["macs"] == 5 * (64 * 9 * 16 + 64 * 144 * 32 + 512 * 10)
    assert found["accuracy_int8"] == found["accuracy_fp32"] == 1.0
    assert found["pcc"] > 0.999


class _Liar(GoldenDevice):
    """A device that gets the last logit of the second image wrong."""

    runs = 0

    def read(self, name):
        array = super().read(name)
        self.runs += 1
        if self.runs == 2:
            array.reshape(-1)[-1] ^= 1
        return array


class _Wrapped:
    """Not a GoldenDevice to `run_model`, so that it is compared with one."""

    def __init__(self, device: GoldenDevice) -> None:
        self._device = device

    def __getattr__(self, name):
        return getattr(self._device, name)


def test_another_device_is_compared_image_by_image(model: Model) -> None:
    config = preset("tiny")
    good = run_model(model, _Wrapped(GoldenDevice(config)), limit=3)
    assert good.to_json()["bit_exact"] is True
    assert good.comparison is not None and good.comparison.elements == 30
    bad = run_model(model, _Wrapped(_Liar(config)), limit=3)
    assert bad.failed
    assert bad.to_json()["bit_exact"] is False and bad.to_json()["mismatches"] == 1


@pytest.mark.parametrize("limit", [0, 361])
def test_limits_outside_the_test_set_are_refused(model: Model, limit: int) -> None:
    with pytest.raises(ModelError, match=rf"--limit {limit}: must be 1…360 images"):
        run_model(model, GoldenDevice(preset("tiny")), limit=limit)


def test_unknown_model_lists_the_known_ones() -> None:
    with pytest.raises(ModelError) as caught:
        get_model("zzz")
    assert str(caught.value).startswith("model 'zzz': no such model; models are digits, resnet18, ")


def test_training_is_deterministic_and_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYSTOLA_CACHE", str(tmp_path))
    monkeypatch.setattr(digits, "EPOCHS", 1)
    data = digits.load_data()
    assert (len(data.train_images), len(data.test_images)) == (1437, 360)
    state = torch.get_rng_state()
    first = digits.trained(data).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    path = digits.weights_path()
    assert path.exists()
    cached = digits.trained(data).state_dict()
    path.write_bytes(path.read_bytes()[:100])  # cut off: trained again
    again = digits.trained(data).state_dict()
    for key, value in first.items():
        assert torch.equal(value, cached[key]) and torch.equal(value, again[key])
