"""Outputs that a program does not write as a whole are errors, whoever reads them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from cli_helpers import copy_image, systola
from golden_programs import by_address

from golden_model import HazardError, Machine
from spec import Image, Opcode, Port, preset
from spec.available import MemoryLimitError, available_memory, require_memory
from spec.isa import encode_program
from sw.runtime.golden import GoldenDevice
from sw.runtime.session import random_inputs, run_image

TINY = preset("tiny")
NEVER = "the host reads output 'y', whose byte {} (element [{}]) the program never wrote"


@pytest.fixture(autouse=True, params=["strided", "by address"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores go by strided views, or by addresses."""
    if request.param == "by address":
        by_address(monkeypatch)


def changed_store(**fields: int) -> Image:
    """The copy program with another STORE."""
    image = copy_image()
    body = image.instructions()
    index = next(i for i, one in enumerate(body) if one.opcode is Opcode.STORE)
    body[index] = replace(body[index], values={**body[index].values, **fields})
    return replace(image, program=np.frombuffer(encode_program(body), np.uint8))


def without_store() -> Image:
    image = copy_image()
    body = [one for one in image.instructions() if one.opcode is not Opcode.STORE]
    return replace(image, program=np.frombuffer(encode_program(body), np.uint8))


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("program", "byte"),
    [
        (without_store(), 0),
        (changed_store(run=63), 63),
        (changed_store(mem_base=1, run=63), 0),
        (changed_store(run=40), 40),
    ],
)
def test_a_byte_never_written_is_named(program: Image, byte: int, check: bool) -> None:
    x = np.arange(64, dtype=np.int8)
    message = re.escape(NEVER.format(byte, byte))
    with pytest.raises(HazardError, match=f"^{message}$") as caught:
        Machine(TINY).run(program, {"x": x}, check=check)
    assert (caught.value.engine, caught.value.space, caught.value.address) == (
        "host", "output", byte
    )  # fmt: skip
    with pytest.raises(HazardError, match=message):
        run_image(program, {"x": x}, GoldenDevice(TINY, check=check))


def test_elements_are_named_by_their_place() -> None:
    wide = replace(
        changed_store(run=40), outputs=(Port(name="y", offset=8, shape=(2, 7, 2), dtype="int16"),)
    )
    with pytest.raises(HazardError, match=re.escape("byte 32 (element [1, 1, 0]) the program")):
        run_image(wide, {"x": np.zeros(64, np.int8)}, GoldenDevice(TINY))


@pytest.mark.parametrize("check", [True, False])
def test_each_run_writes_its_outputs_anew(check: bool) -> None:
    device = GoldenDevice(TINY, check=check)
    image = copy_image()
    device.load(image)
    with pytest.raises(HazardError, match="the host reads output 'y'"):
        device.read("y")
    x = np.arange(64, dtype=np.int8)
    for value in (x, -x):
        device.write("x", value)
        device.run()
        np.testing.assert_array_equal(device.read("y"), value)
    device.load(changed_store(run=10))
    device.write("x", x)
    device.run()
    with pytest.raises(HazardError, match="byte 10 "):
        device.read("y")


def test_the_command_line_says_it_without_a_trace_back(tmp_path) -> None:
    without_store().save(tmp_path / "p.systola")
    code, out, errors = systola("exec", tmp_path / "p.systola", "--device", "golden")
    assert (code, errors) == (2, f"systola: {NEVER.format(0, 0)}\n"), out


def test_more_memory_than_there_is_is_refused_before_it_is_taken(monkeypatch) -> None:
    free = available_memory()
    assert free is not None and free > 1 << 20
    require_memory(1 << 20, "a megabyte")
    with pytest.raises(
        MemoryLimitError, match=r"^a petabyte needs about 1,125,899,906,842,624 bytes"
    ):
        require_memory(1 << 50, "a petabyte")
    monkeypatch.setattr("spec.available.available_memory", lambda: 1 << 20)
    big = replace(copy_image(), temp_bytes=1 << 21)
    with pytest.raises(MemoryLimitError, match=r"program copy: its memory needs about 2,097,280"):
        Machine(TINY).load(big)
    stored = replace(copy_image(), temp_bytes=1 << 19)
    with pytest.raises(MemoryLimitError, match="the search for hazards in the program's memory"):
        Machine(TINY).run(stored, random_inputs(stored, 0))
    Machine(TINY).run(stored, random_inputs(stored, 0), check=False)
    many = tuple(Port(name=f"x{i}", offset=0, shape=(1 << 16,)) for i in range(20))
    with pytest.raises(MemoryLimitError, match="program copy: its tensors"):
        random_inputs(replace(copy_image(), inputs=many), 0)
