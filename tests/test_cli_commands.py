"""The command line: what it prints, and one clear message for each thing a user can get wrong."""

import json
import re

import numpy as np
import pytest
from cli_helpers import copy_image, image_with_bytes, systola

from spec.config import PRESETS, preset
from spec.isa import ISA_DIGEST


def refused(*arguments, code=2, **kwargs):
    """The one message on stderr of a command that is refused."""
    got, out, err = systola(*arguments, **kwargs)
    assert got == code, out + err
    assert "Traceback" not in err + out
    assert err.startswith("systola: ")
    return err.removeprefix("systola: ").rstrip("\n")


@pytest.fixture
def image_file(tmp_path):
    path = tmp_path / "copy.systola"
    copy_image().save(path)
    return path


def test_help_names_every_command():
    code, out, _ = systola("--help")
    assert code == 0
    for command in ("sim", "run", "verify", "exec", "compile", "disasm", "config", "doctor"):
        assert re.search(rf"^│ {command} ", out, re.M), command


def test_config_list_has_every_preset_with_its_digest():
    code, out, _ = systola("config", "list")
    assert code == 0
    for name, config in PRESETS.items():
        assert re.search(rf"│ {name} .*{config.digest_hex} │", out)


def test_config_show_has_fields_and_derived_sizes():
    code, out, _ = systola("config", "show", "odd", "--set", "rows=10")
    assert code == 0
    assert re.search(r"│ rows +│ 10 ", out)
    assert re.search(r"│ pes +│ 120 ", out)


def test_unknown_command_is_a_usage_error():
    code, _, err = systola("simulate")
    assert code == 2
    assert "No such command" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--config", "nosuch"],
            "config 'nosuch': no such preset; presets are micro, tiny, small, default, large, "
            "huge, giant, rect, odd",
        ),
        (["--set", "rows=0"], "rows=0: must lie in 2…128"),
        (["--set", "rows"], "--set rows: must be of the form name=value, e.g. --set rows=8"),
        (["--device", "fpga"], "--device fpga: must be one of rtl, golden"),
        (["--latency", "0"], "--latency 0: must be 1 or more cycles"),
        (["--stall", "1"], "--stall 1: a probability, from 0 up to but not 1"),
        (
            ["--device", "golden", "--waves"],
            "--waves: device golden has no waves; use --device rtl",
        ),
    ],
)
def test_bad_options_of_sim(arguments, message):
    assert refused("sim", "matmul", *arguments) == message


def test_disasm_prints_ports_and_instructions(image_file):
    code, out, _ = systola("disasm", image_file)
    assert code == 0
    assert out.splitlines() == [
        f"; configuration tiny {preset('tiny').digest_hex}",
        "; input x: int8[64] at 0x0",
        "; output y: int8[64] at 0x0",
        "; constants 0 bytes, temporary 0 bytes",
        f"    0  begin isa_digest={ISA_DIGEST & 0xFFFFFFFF} "
        f"config_digest={preset('tiny').digest()}",
        "    1  load post(s0x1@0:DONE) region=1 run=64",
        "    2  store wait(s0x1@0:DONE) region=2 run=64",
        "    3  end",
    ]


def test_exec_on_golden_takes_inputs_and_writes_outputs(image_file, tmp_path):
    x = np.arange(64, dtype=np.int8)
    np.save(tmp_path / "x.npy", x)
    code, out, err = systola(
        "exec", image_file, "--device", "golden", "--input", f"x={tmp_path / 'x.npy'}",
        "--out", tmp_path / "out", "--json", tmp_path / "r.json",
    )  # fmt: skip
    assert code == 0, err
    assert "nothing was compared" in out
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "y.npy"), x)
    facts = json.loads((tmp_path / "r.json").read_text())
    assert (facts["name"], facts["device"], facts["bit_exact"]) == ("copy", "golden", None)


def test_exec_is_reproducible_by_seed(image_file, tmp_path):
    outputs = []
    for seed in (1, 1, 2):
        assert systola(
            "exec", image_file, "-d", "golden", "--seed", seed, "--out", tmp_path
        )[0] == 0  # fmt: skip
        outputs.append(np.load(tmp_path / "y.npy").tobytes())
    assert outputs[0] == outputs[1] != outputs[2]


def test_image_of_another_configuration_is_refused_with_both_digests(image_file):
    tiny, default = preset("tiny").digest_hex, preset("default").digest_hex
    assert refused("exec", image_file, "--config", "default") == (
        f"image is for configuration tiny ({tiny}), the device is default ({default}); "
        "compile it again with --config default"
    )


def test_truncated_image_is_refused(image_file):
    data = image_file.read_bytes()
    image_file.write_bytes(data[:-1])
    message = f"{image_file}: cut off: {len(data)} bytes expected, the file has {len(data) - 1}"
    for command in ("exec", "disasm"):
        assert refused(command, image_file) == message


def test_missing_image_is_refused(tmp_path):
    path = tmp_path / "none"
    assert refused("exec", path) == f"{path}: cannot read: No such file or directory"


def test_illegal_opcode_is_refused_by_disasm_and_golden(tmp_path):
    path = tmp_path / "bad.systola"
    image_with_bytes(16, 0x77).save(path)
    assert refused("disasm", path) == "program: offset 0x10: illegal opcode 0x77"
    assert "0x77" in refused("exec", path, "--device", "golden")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("x", "--input x: must be of the form name=file.npy"),
        ("z={good}", "input z: is no input of this program; its inputs are x"),
        ("x={short}", "input x: {short}: shape [3]; the program's input x is [64]"),
        ("x={wide}", "input x: {wide}: value -129 at [0]; the program's input x is int8"),
    ],
)
def test_bad_inputs_of_exec(image_file, tmp_path, item, message):
    np.save(tmp_path / "good.npy", np.zeros(64, np.int8))
    np.save(tmp_path / "short.npy", np.zeros(3, np.int8))
    np.save(tmp_path / "wide.npy", np.full(64, -129, np.int32))
    files = {n: tmp_path / f"{n}.npy" for n in ("good", "short", "wide")}
    item, message = item.format(**files), message.format(**files)
    assert refused("exec", image_file, "--device", "golden", "--input", item) == message


def test_input_that_is_no_npy_file(image_file, tmp_path):
    (tmp_path / "x.npy").write_text("hello")
    message = refused("exec", image_file, "--input", f"x={tmp_path / 'x.npy'}")
    assert message.startswith(f"input x: {tmp_path / 'x.npy'}: no readable .npy file: ")


def test_json_that_cannot_be_written(image_file, tmp_path):
    message = refused("exec", image_file, "-d", "golden", "--json", tmp_path)
    assert message == f"--json {tmp_path}: cannot write: Is a directory"
