"""The wide networks: their table, one of them from end to end, rows that are only predicted."""

import ast
from pathlib import Path

import pytest
from test_cli_report import TIMED

import sw.models.wide
from spec import preset
from sw.cli.main import main
from sw.measure import bench
from sw.measure.bench import is_predicted, predicted, problems, run_suite, summary
from sw.measure.bench_health import activation_health
from sw.measure.bench_store import Store
from sw.measure.bench_suites import Entry, entries
from sw.models.catalog import get_model, is_built_in, pcc_between
from sw.models.wide.building import load_wide
from sw.models.wide.table import WIDE
from sw.runtime.session import DeviceOptions

DEFAULT = preset("default")
FOLDER = Path(sw.models.wide.__file__).parent


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYSTOLA_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def functions(file: str) -> set[str]:
    tree = ast.parse((FOLDER / f"{file}.py").read_text())
    return {item.name for item in tree.body if isinstance(item, ast.FunctionDef)}


@pytest.mark.parametrize("name", WIDE)
def test_every_network_has_a_function_and_a_family(name: str) -> None:
    assert name in functions(WIDE[name].file)
    assert WIDE[name].family and WIDE[name].shape and is_built_in(name)


def test_the_suite_has_them_all_and_many_families() -> None:
    assert [entry.name for entry in entries("wide")] == list(WIDE)
    assert len(WIDE) >= 20 and len({spec.family for spec in WIDE.values()}) >= 15


def test_a_network_is_quantized_once_and_says_something() -> None:
    model = get_model("temporal")
    again = load_wide("temporal")
    assert (FOLDER / "sound.py").is_file() and again.info["family"] == "1-d, dilated, causal"
    assert model.count >= 2 and pcc_between(model.logits_fp32(model.count)) < 0.99
    health = activation_health(model.imported().graph, model.inputs(0))
    assert health["tensors"] > 5 and health["dead"] == []


def test_a_prediction_has_the_keys_of_a_benchmark() -> None:
    row = predicted(Entry(name="t", target="temporal"), DEFAULT, DeviceOptions(clock_mhz=100))
    assert set(row) >= TIMED and is_predicted(row) and problems(row) == []
    assert row["cycles"] is None and row["macs"] > 4_000_000
    assert row["share"] == pytest.approx(row["layer_bound"] / row["predicted_cycles"])
    assert row["ms"] == pytest.approx(row["predicted_cycles"] / 1e5)
    assert summary(row).startswith(f"t: {row['predicted_cycles']:,} cycles predicted, share ")


def test_a_kernel_is_predicted_with_its_shape() -> None:
    entry = Entry(name="m", target="matmul", shape="32x32x32")
    assert predicted(entry, DEFAULT, DeviceOptions())["macs"] == 32**3
    row = predicted(Entry(name="m", target="no_such"), DEFAULT, DeviceOptions())
    assert problems(row) == [row["error"]] and "no such kernel or model" in row["error"]


def test_a_prediction_does_not_replace_a_measurement_but_is_replaced_by_one(
    tmp_path, monkeypatch
) -> None:
    def measured(entry, config, options):
        return {**predicted(entry, config, options), "device": "rtl", "cycles": 9, "pcc": None} | {
            "utilization": None, "bit_exact": True, "reference_exact": True,
        }  # fmt: skip

    monkeypatch.setattr(bench, "measured", measured)
    chosen, options = [Entry(name="m", target="matmul", shape="16x16x16")], DeviceOptions()

    def run(*, predict: bool) -> dict:
        store = Store(tmp_path / "rows.json", DEFAULT, {"latency": 100})
        (row,) = run_suite(chosen, DEFAULT, options, store, lambda _: None, predict=predict)
        return row

    assert is_predicted(run(predict=True))
    assert run(predict=False)["cycles"] == 9
    assert run(predict=True)["cycles"] == 9


def test_modules_cannot_be_predicted(capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["bench", "--suite", "modules", "--predict"])
    assert caught.value.code == 2
    assert "--predict: suite modules is run as commands run it" in capsys.readouterr().err
