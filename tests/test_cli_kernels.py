"""Kernels, models and the TOSA check from the command line, on the golden model."""

import json
import subprocess
import sys

import numpy as np
import pytest
from cli_helpers import ROOT, environment, systola
from test_cli_commands import refused
from test_cli_report import KEYS, TIMED

from spec.program import load_image


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["matmul", "--shape", "0x3x4"],
            "shape '0x3x4': dimension m=0 is illegal, it must lie in 1…65535",
        ),
        (["matmul", "--shape", "3x4"], "shape '3x4': matmul wants MxKxN, like 64x64x64"),
        (["matmul", "--shape", "3xfoux5"], "shape '3xfoux5': k='fou' is not a whole number"),
        (
            ["nosuch"],
            "kernel 'nosuch': no such kernel; kernels are matmul, fully_connected, conv2d, "
            "depthwise_conv2d, max_pool2d, avg_pool2d, resize, channel_shuffle, add, rescale",
        ),
    ],
)
def test_bad_kernels_and_shapes(arguments, message):
    assert refused("sim", *arguments) == message


def test_sim_on_golden_with_the_reference_model(tmp_path):
    code, out, err = systola(
        "sim", "matmul", "--shape", "3x17x5", "--config", "odd", "--device", "golden", "--verify",
        "--json", tmp_path / "r.json",
    )  # fmt: skip
    assert code == 0, err
    assert "PASS  golden model = TOSA reference model: 15 elements, 0 differences" in out
    facts = json.loads((tmp_path / "r.json").read_text())
    assert set(facts) == KEYS | TIMED
    assert facts["name"] == "matmul"
    assert facts["shape"] == "3x17x5"
    assert facts["macs"] == 3 * 17 * 5
    assert (facts["config"], facts["device"]) == ("odd", "golden")
    assert (facts["bit_exact"], facts["reference_exact"], facts["mismatches"]) == (None, True, 0)
    assert (facts["cycles"], facts["utilization"], facts["dram_read_bytes"]) == (None, None, None)


def test_a_wrong_result_fails_with_the_first_difference(tmp_path):
    # The reference model is fed another graph's constants: its results must differ.
    code = (
        "import sys\n"
        "from sw.runtime import verify as v\n"
        "plain = v.run_reference\n"
        "def wrong(*a, **k):\n"
        "    out = plain(*a, **k)\n"
        "    next(iter(out.values())).reshape(-1)[6] ^= 1\n"
        "    return out\n"
        "v.run_reference = wrong\n"
        "from sw.cli.main import main\n"
        "main(['sim','matmul','--shape','2x4x5','-c','tiny','-d','golden','--verify',"
        f"'--json',{str(tmp_path / 'r.json')!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment()
    )
    assert done.returncode == 1, done.stderr
    assert (
        "FAIL  golden model = TOSA reference model: 1 of 10 elements differ; first: y[0, 1, 1]"
        in (done.stdout)
    )
    facts = json.loads((tmp_path / "r.json").read_text())
    assert (facts["reference_exact"], facts["mismatches"]) == (False, 1)


def test_compile_writes_an_image_that_exec_runs(tmp_path):
    path = tmp_path / "sub" / "add.systola"
    code, out, err = systola(
        "compile", "add", "--shape", "h=3,w=5,c=7", "--config", "tiny", "-o", path
    )
    assert code == 0, err
    image = load_image(path)
    assert out.startswith(f"{path}: {len(image.instructions())} instructions in ")
    assert image.info["shape"] == "n=1,h=3,w=5,c=7"
    assert systola("exec", path, "-d", "golden", "--out", tmp_path)[0] == 0
    assert np.load(tmp_path / "y.npy").shape == (1, 3, 5, 7)


def test_compile_dumps_stages(tmp_path):
    arguments = ["compile", "matmul", "--shape", "4x4x4", "-c", "tiny", "-o", tmp_path / "m"]
    code, out, _ = systola(*arguments, "--dump-after", "tosa,emit")
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("===")] == ["=== tosa", "=== emit"]
    code, out, _ = systola(*arguments, "--dump-after", "all")
    assert out.count("===") >= 8
    assert refused(*arguments, "--dump-after", "magic").startswith(
        "dump_after=['magic']: no such stage"
    )


@pytest.mark.parametrize("command", ["verify", "compile"])
def test_unknown_target_lists_kernels_and_models(command):
    message = refused(command, "resnet")
    assert message.startswith("'resnet': no such kernel or model (did you mean 'resnet")
    assert "; models are digits, resnet18, " in message


def test_a_model_takes_no_shape():
    assert refused("verify", "digits", "--shape", "1x2x3") == (
        "--shape 1x2x3: model digits has its own shape; leave it out"
    )


def test_verify_of_several_targets_prints_and_writes_each(tmp_path):
    code, out, err = systola("verify", "add", "rescale", "-c", "tiny", "--json", tmp_path / "v")
    assert code == 0, err
    assert out.count("PASS  golden model = TOSA reference model: 6,272 elements") == 2
    assert out.endswith("2 verified, 0 failed\n")
    facts = json.loads((tmp_path / "v").read_text())
    assert [(f["name"], f["reference_exact"], f["mismatches"]) for f in facts] == [
        ("add", True, 0),
        ("rescale", True, 0),
    ]


def test_run_of_a_model_reports_accuracy(tmp_path):
    code, out, err = systola(
        "run", "digits", "--limit", "6", "--config", "small", "--verify", "--json", tmp_path / "r"
    )
    assert code == 0, err
    facts = json.loads((tmp_path / "r").read_text())
    assert set(facts) >= KEYS | {"accuracy_fp32", "accuracy_int8", "images", "pcc"}
    assert facts["images"] == 6
    assert (facts["bit_exact"], facts["reference_exact"]) == (None, True)
    assert facts["macs"] > 6 * 100_000
    assert "PASS  golden model = TOSA reference model: 60 elements, 0 differences" in out


@pytest.mark.parametrize("limit", ["0", "361"])
def test_number_of_images_is_checked(limit):
    assert refused("run", "digits", "--limit", limit) == f"--limit {limit}: must be 1…360 images"


def test_unknown_model_lists_the_models():
    message = refused("run", "gpt")
    assert message.startswith(
        "model 'gpt': no such model (did you mean 'gpt2'?); models are digits, "
    )
