"""`systola accuracy`: integers beside the float module, and the device beside the integers."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GPT2Config

from spec.config import preset
from sw.cli.main import main
from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.quantization.smoothing import choose
from sw.compiler.frontend.quantized import QuantizedModel, load_quantized
from sw.measure.accuracy import integers, measure
from sw.measure.model_runs import verify_model
from sw.models.catalog import get_model, pcc
from sw.models.gpt2 import decoder
from sw.models.sentences import STYLES, all_sentences
from sw.models.supplied import Supplied
from sw.models.transformer_table import TRANSFORMERS
from sw.models.transformers import _BUILDERS, calibration_sentences
from sw.runtime.arrays import ArrayFileError
from sw.runtime.session import DeviceOptions, OptionError


def test_tiny_bert_is_accurate_by_layer_and_bit_exact_on_the_golden_model() -> None:
    row = measure("bert_tiny", limit=1, layers=True, config=preset("small"))
    assert row["device_exact"] is True
    assert row["pcc_least"] >= 0.999
    assert {layer["dtype"] for layer in row["layers"]} == {"int8", "int16"}
    assert min(layer["pcc"] for layer in row["layers"]) >= 0.99


def test_the_command_writes_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.json"
    with pytest.raises(SystemExit) as done:
        main(["accuracy", "bert_tiny", "-n", "2", "--rows", "never", "--json", str(out)])
    assert not done.value.code
    assert "bert_tiny: 2 samples, PCC with float 0.99" in capsys.readouterr().out.replace(
        "1.0", "0.99"
    )
    (row,) = json.loads(out.read_text())
    assert row["samples"] == 2 and row["pcc_between"][0] < row["pcc"][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "model 'nope': no such network; networks are bert, bert_tiny, minilm"),
        (["bert_tiny", "--rows", "some"], "--rows some: must be auto, never or always"),
        (["bert_tiny", "--device", "fpga"], "--device fpga: must be none, golden or rtl"),
    ],
)
def test_bad_requests_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as done:
        main(["accuracy", *arguments])
    assert done.value.code == 2
    assert message in capsys.readouterr().err


def test_every_transformer_of_the_table_has_a_builder() -> None:
    assert set(TRANSFORMERS) == {*_BUILDERS, "minilm"}


def test_decoding_with_a_cache_follows_the_float_network() -> None:
    torch.manual_seed(0)
    module, make = decoder(GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=100), state=8)
    calls = [make() for _ in range(24)]
    imported = import_model(module, calls[0], calibration=calls[:22], policy="wide")
    assert [p.dtype for p in imported.inputs[:2]] == ["int32", "int32"]
    assert {p.dtype for p in imported.inputs[3:]} == {"int8"}
    # A single row of queries meets the keys as they lie.
    assert not [op for op in imported.graph.ops if op.kind == "TRANSPOSE"]
    for call in calls[22:]:
        with torch.no_grad():
            exact = module(*call)
        results = integers(imported, call)
        assert len(results) == 1 + 4
        for result, wanted in zip(results, exact, strict=True):
            assert pcc(result, wanted.numpy()) >= 0.98


def test_a_stored_model_keeps_the_types_of_its_ports(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, make = decoder(GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=50), state=4)
    imported = import_model(module, make(), policy="wide")
    path = tmp_path / "m.safetensors"
    QuantizedModel(imported=imported, info={"name": "m"}).save(path)
    again = load_quantized(path).imported
    assert [(p.dtype, p.scale) for p in again.inputs] == [
        (p.dtype, p.scale) for p in imported.inputs
    ]


def test_sentences_that_calibrate_are_always_the_same_and_none_of_the_samples() -> None:
    found, samples = calibration_sentences(), all_sentences()
    assert len(found) > 300 and len(set(found)) == len(found)
    assert found[:3] == calibration_sentences()[:3]
    assert not set(found) & set(samples)


def test_samples_are_many_distinct_sentences_of_every_style() -> None:
    samples = all_sentences()
    assert len(STYLES) >= 6 and len(samples) == len(set(samples)) >= 100
    assert {len(row) for row in STYLES.values()} == {len(samples) // len(STYLES)}
    for text in samples:
        assert 20 <= len(text) <= 120 and text[0].isupper() and text[-1] in ".?!"


def test_more_samples_than_there_are_is_refused() -> None:
    with pytest.raises(OptionError, match="--limit 5: bert_tiny has 4 samples"):
        measure("bert_tiny", limit=5)


@pytest.mark.rtl
@pytest.mark.timeout(900)
def test_a_transformer_on_the_rtl_is_the_golden_models() -> None:
    options = DeviceOptions(device="rtl")
    row = measure("bert_tiny", limit=1, config=preset("tiny"), options=options)
    assert (row["device_exact"], row["bit_exact"], row["elements"]) == (True, True, 16 * 64)
    assert row["cycles"] > 1_114_112 / 16


def test_what_saturates_on_new_inputs_speaks_for_scales_by_row() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(8, 64))]
    even = rng.uniform(-1, 1, size=(64, 64))
    assert not choose(np.abs(even).max(0), even, weights, "auto").by_row
    heavy = rng.standard_t(2.2, size=(64, 64))
    assert choose(np.abs(heavy).max(0), heavy, weights, "auto").by_row
    assert choose(np.abs(even).max(0), even, weights, "always").by_row
    assert not choose(np.abs(heavy).max(0), heavy, weights, "never").by_row


def test_smoothing_is_never_worse_than_one_scale_for_all_channels() -> None:
    rng = np.random.default_rng(0)
    samples = rng.laplace(size=(128, 256))
    weights = [rng.normal(size=(4, 256))]  # the maxima of its columns differ by chance
    found = choose(np.abs(samples).max(0), samples, weights, "never")
    assert found.error <= found.plain


def test_a_built_in_transformer_agrees_with_the_reference_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYSTOLA_CACHE", str(tmp_path))
    model = get_model("bert_tiny")
    report = verify_model(model, preset("small"), limit=1)
    assert report.reference is not None and report.reference.elements == 16 * 64
    assert report.reference.mismatches == 0
    assert report.macs == 1_114_112


def test_token_indices_cannot_be_given_as_floats(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 16), np.float32))
    with pytest.raises(ArrayFileError, match="holds float32; the model takes whole numbers"):
        get_model("bert_tiny", Supplied(inputs=(tmp_path / "x.npy",)))
