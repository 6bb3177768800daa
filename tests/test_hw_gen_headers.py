"""The C header compiles and says what spec says; the SystemVerilog package is clean."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hw_gen.__main__ import main
from hw_gen.headers import LICENSE, c_header, sv_package
from spec.config import NpuConfig, preset
from spec.isa import FORMATS, ISA_DIGEST, Alu, DType, Engine, Group, Opcode
from spec.memmap import OFFSETS, Fault, Stall
from sw.runtime.simulator.generated import generate_rtl

RTL = Path(__file__).resolve().parent.parent / "rtl"
PRESET_NAMES = ["tiny", "default", "odd"]


def expected(config):
    """Name without prefix → value, computed from spec in the plainest way."""
    values = {
        "ISA_DIGEST": ISA_DIGEST,
        "CONFIG_DIGEST": config.digest(),
        "ROWS": config.rows,
        "COLS": config.cols,
        "SPAD_BYTES": config.spad_kib * 1024,
        "ACC_VECTORS": config.acc_vectors,
        "PARAM_ENTRY_BYTES": config.param_entry_bytes,
        "BUS_BYTES": config.bus_bytes,
        "AXI_ADDR_BITS": config.axi_addr_bits,
        "ISA_VERSION_MAJOR": 2,
        "ISA_VERSION_MINOR": 0,
        "REGION_OUTPUT": 2,
    }
    values |= {f"REG_{name}": offset for name, offset in OFFSETS.items()}
    for kind in (Opcode, Engine, Fault, Stall, DType, Alu):
        values |= {f"{kind.__name__.upper()}_{m.name}": int(m) for m in kind}
    for opcode, fmt in FORMATS.items():
        values[f"{opcode.name}_GRANULES"] = fmt.granules
        at = 0
        for item in fmt.items:
            name = f"{opcode.name}_{item.name.upper()}"
            if isinstance(item, Group):
                values[f"{name}_ELEMENTS"] = item.count
                apart = [field for field in item.fields if field.apart]
                values |= {f"{name}_{field.name.upper()}_STEP": field.bits for field in apart}
                values[f"{name}_ELEMENT_BITS"] = item.bits // item.count - sum(
                    field.bits for field in apart
                )
            else:
                values[f"{name}_LSB"] = at
                values[f"{name}_BITS"] = item.bits
            at += item.bits
    return values


@pytest.mark.parametrize("name", PRESET_NAMES)
@pytest.mark.parametrize(
    "compiler", [["gcc", "-std=c11"], ["g++", "-std=c++17"]], ids=lambda c: c[0]
)
def test_header_compiles_cleanly_and_prints_the_values_of_spec(tmp_path, name, compiler):
    config = preset(name)
    (tmp_path / "systola_params.h").write_text(c_header(config))
    want = expected(config)
    lines = "\n".join(f'    P("{key}", SYSTOLA_{key});' for key in want)
    (tmp_path / "main.c").write_text(
        '#include "systola_params.h"\n#include "systola_params.h"\n'
        "#include <stdio.h>\n"
        '#define P(name, value) printf("%s %llu\\n", name, (unsigned long long)(value))\n'
        f"int main(void) {{\n{lines}\n    return 0;\n}}\n"
    )
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    subprocess.run([*compiler, *flags, "main.c", "-o", "main"], cwd=tmp_path, check=True)
    out = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    got = {key: int(value) for key, value in (line.split() for line in out.splitlines())}
    assert len(got) > 300
    assert got == want


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_package_passes_the_linter_and_agrees_with_the_header(tmp_path, name):
    from sw.runtime.simulator.verilator import find_verilator

    config = preset(name)
    path = tmp_path / "systola_pkg.sv"
    path.write_text(sv_package(config))
    verilator = find_verilator()
    done = subprocess.run(
        [verilator.command, "--lint-only", "-Wall", path],
        capture_output=True,
        text=True,
        env={**os.environ, **verilator.env},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "%Warning" not in done.stderr
    found = re.findall(
        r"^  localparam (?:\S+ )+?(\w+) = (?:(\d+)'h)?([0-9a-f]+);", path.read_text(), re.M
    )
    got = {key: int(value, 16 if bits else 10) for key, bits, value in found}
    want = {k: v for k, v in expected(config).items() if k in got}
    assert len(want) > 250
    assert {k: got[k] for k in want} == want
    assert f"OPCODE_MATRIX = 6'd{int(Opcode.MATRIX)}" in path.read_text()


def test_every_enumeration_of_a_field_is_in_both_texts():
    kinds = {
        field.kind
        for fmt in FORMATS.values()
        for item in fmt.items
        for field in (item.fields if isinstance(item, Group) else (item,))
        if field.kind is not None
    }
    assert len(kinds) == 8
    for kind in kinds:
        assert f"enum systola_{kind.__name__.lower()} {{" in c_header(preset("tiny"))
        assert f"}} {kind.__name__.lower()}_e;" in sv_package(preset("tiny"))


@pytest.mark.parametrize("make", [c_header, sv_package])
def test_names_are_unique_and_text_depends_on_the_digest_only(make):
    config = preset("small")
    text = make(config)
    names = re.findall(r"^(?:#define (\w+) \S|  localparam .* (\w+) = )", text, re.M)
    names = [a or b for a, b in names]
    assert len(names) > 250
    assert len(set(names)) == len(names)
    renamed = NpuConfig(**{**config.to_dict(), "name": "another"})
    assert make(renamed) == text
    assert make(preset("tiny")) != text


def run_generator(*arguments, **variables):
    return subprocess.run(
        [sys.executable, "-m", "hw_gen", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        cwd=Path(__file__).resolve().parent.parent,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--config", "nosuch"],
            "hw_gen: config 'nosuch': no such preset; presets are micro, tiny, small, default, "
            "large, huge, giant, rect, odd\n",
        ),
        (["--set", "rows=0"], "hw_gen: rows=0: must lie in 2…128\n"),
        (
            ["--set", "rows"],
            "hw_gen: --set rows: must be of the form name=value, e.g. --set rows=8\n",
        ),
    ],
)
def test_bad_arguments_of_the_generator_are_one_message(arguments, message):
    done = run_generator(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """default with micro's settings, which is micro under another name, of some hash seed."""
    out = tmp_path_factory.mktemp("generated") / "out"
    micro = preset("micro").to_dict()
    settings = [
        part
        for key, value in micro.items()
        if key != "name" and value != getattr(preset("default"), key)
        for part in ("--set", f"{key}={value}")
    ]
    done = run_generator("--config", "default", *settings, "--out", out, PYTHONHASHSEED="random")
    assert done.returncode == 0, done.stderr
    return done.stdout, out


def test_equal_digests_give_equal_bytes_whatever_the_hash_seed_and_the_name(generated, tmp_path):
    printed, out = generated
    assert f"digest {preset('micro').digest_hex}" in printed
    generate_rtl(preset("micro"), tmp_path)  # of hash seed 0
    digests = [
        {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}
        for folder in (out, tmp_path)
    ]
    assert set(digests[0]) == {
        "systola_npu.v",
        "systola_elements.v",
        "systola_multiplier.sv",
        "systola_sram.sv",
        "systola_params.h",
        "systola_pkg.sv",
    }
    assert digests[0] == digests[1]


def test_generator_names_every_file_that_it_wrote(generated):
    printed, out = generated
    listed = re.findall(r"^  (\S+)  [0-9,]+ bytes$", printed, re.M)
    assert sorted(listed) == sorted(str(p) for p in out.iterdir())
    assert re.search(r"module systola_npu\(", (out / "systola_npu.v").read_text())
    by_hand = [p for p in RTL.iterdir() if p.suffix in (".sv", ".cpp", ".h", ".vlt")]
    assert len(by_hand) > 10
    for path in (*by_hand, *map(Path, listed)):
        assert LICENSE in "".join(path.read_text().splitlines()[:2]), path


def test_default_folder_follows_from_preset_and_settings(tmp_path, monkeypatch):
    folders = []
    monkeypatch.setattr(
        "hw_gen.generate.generate", lambda config, out, **_: folders.append(out) or []
    )
    monkeypatch.chdir(tmp_path)
    for arguments in (["--config", "odd"], ["--set", "rows=8"], ["--out", "x"]):
        assert main(arguments) == 0
    assert folders == [Path("rtl/gen/odd"), Path("rtl/gen/default+rows=8"), Path("x")]


def test_blocks_have_names_that_no_signal_takes_from_them(generated):
    """A generated name would be in every wave, path and table of areas."""
    _, out = generated
    found = re.findall(r"^module \\?(systola_npu\S*)", (out / "systola_npu.v").read_text(), re.M)
    assert len(found) > 50
    assert [name for name in found if "$" in name] == []


def test_no_signal_has_no_bits(generated):
    """`[-1:0]` are two bits for Verilog."""
    _, out = generated
    assert "[-1:0]" not in (out / "systola_npu.v").read_text()
