"""The host's side of a board's serial line, against a board that is a dictionary."""

import struct

import numpy as np
import pytest

from spec import preset
from spec.isa import ISA_DIGEST
from spec.memmap import ID_VALUE, OFFSETS, Status
from sw.compiler.pipeline import run_stages
from sw.measure.profile.run import target_graph
from sw.runtime.fpga.device import SerialDevice
from sw.runtime.fpga.line import Line, LineError
from sw.synth.errors import SynthError
from sw.synth.fpga.board import BOARDS, board_named, build_bitstream

MICRO = preset("micro")


class Board:
    """Answers commands; `run` is called when START is written."""

    def __init__(self, memory_bytes: int = 65536) -> None:
        self.memory = bytearray(memory_bytes)
        self.registers = {
            OFFSETS["ID"]: ID_VALUE,
            OFFSETS["STATUS"]: 0,
            **pair("ISA_DIGEST", ISA_DIGEST),
            **pair("CONFIG_DIGEST", MICRO.digest()),
        }
        self.answers = b""
        self.silent = False

    def write(self, data: bytes) -> int:
        letter, address, number = struct.unpack("<cII", data[:9])
        if letter == b"I":
            self.answers += b"SYS1" + struct.pack("<I", len(self.memory))
        elif letter == b"W":
            assert len(data) == 9 + number
            self.memory[address : address + number] = data[9:]
            self.answers += b"\x06"
        elif letter == b"R":
            self.answers += self.memory[address : address + number]
        elif letter == b"w":
            self.registers[address] = number
            if address == OFFSETS["CONTROL"]:
                self.registers[OFFSETS["STATUS"]] = self.run()
            self.answers += b"\x02" if address >= 0x1000 else b"\0"
        else:
            self.answers += struct.pack("<IB", self.registers.get(address, 0), 0)
        return len(data)

    def read(self, size: int = 1) -> bytes:
        taken = b"" if self.silent else self.answers[:size]
        self.answers = self.answers[len(taken) :]
        return taken

    def run(self) -> int:
        return Status.DONE


def pair(name: str, value: int) -> dict[int, int]:
    return {OFFSETS[f"{name}_LO"]: value & 0xFFFFFFFF, OFFSETS[f"{name}_HI"]: value >> 32}


@pytest.fixture(scope="module")
def matmul():
    graph, inputs, _ = target_graph("matmul", "8x8x8", 0)
    return run_stages(graph, MICRO, name="matmul").image, inputs


def test_memory_goes_in_pieces_and_comes_back() -> None:
    board = Board()
    line = Line(board)
    data = bytes(np.random.default_rng(1).integers(0, 256, 10_000, np.uint8))
    line.write(77, data)
    assert line.memory_bytes == 65536
    assert board.memory[77 : 77 + len(data)] == data and line.read(77, len(data)) == data


def test_a_program_lies_where_its_registers_say(matmul) -> None:
    image, inputs = matmul
    board = Board()
    device = SerialDevice(MICRO, board)
    device.load(image)
    for name, array in inputs.items():
        device.write(name, array)
    device.run()
    at = board.registers[OFFSETS["PROGRAM_LO"]]
    assert board.memory[at : at + image.program.size] == image.program.tobytes()
    assert board.registers[OFFSETS["PROGRAM_BYTES"]] == image.program.size
    bases = [board.registers[OFFSETS[f"BASE{region}_LO"]] for region in range(4)]
    assert len({at, *bases}) == 5 and all(base % 64 == 0 for base in bases)
    assert board.memory[bases[0] :].startswith(image.constants.tobytes())
    limits = [board.registers[OFFSETS[f"LIMIT{region}"]] for region in range(4)]
    assert limits == [image.region_bytes(region) for region in range(4)] and limits[1] == 128
    board.memory[bases[2] : bases[2] + 64] = bytes(range(64))
    (output,) = image.outputs
    got = device.read(output.name)
    assert got.tobytes() == bytes(range(64))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"silent": True}, "answers nothing to I"),
        ({"registers": {OFFSETS["ID"]: 7}}, "register ID of the board reads 0x7, not"),
    ],
)
def test_another_thing_at_the_port_is_named(change, message) -> None:
    board = Board()
    for name, value in change.items():
        setattr(board, name, {**board.registers, **value} if name == "registers" else value)
    with pytest.raises(LineError, match=message):
        SerialDevice(MICRO, board)


def test_a_program_larger_than_the_memory_is_refused(matmul) -> None:
    image, _ = matmul
    device = SerialDevice(MICRO, Board(memory_bytes=1024))
    with pytest.raises(LineError, match="the board has 1,024; take a smaller model"):
        device.load(image)


def test_a_fault_names_its_instruction(matmul) -> None:
    image, inputs = matmul
    board = Board()
    board.run = lambda: Status.FAULT
    board.registers[OFFSETS["FAULT_CAUSE"]] = 1
    board.registers[OFFSETS["FAULT_INSTRUCTION"]] = 1
    device = SerialDevice(MICRO, board)
    device.load(image)
    for name, array in inputs.items():
        device.write(name, array)
    with pytest.raises(LineError, match="instruction 1: "):
        device.run()


def test_a_run_that_does_not_end_and_an_answer_that_stops_are_errors(matmul) -> None:
    image, inputs = matmul
    board = Board()
    board.run = lambda: 0
    device = SerialDevice(MICRO, board, longest_s=0.05)
    device.load(image)
    for name, array in inputs.items():
        device.write(name, array)
    with pytest.raises(LineError, match=r"does not end within 0\.05 s"):
        device.run()
    board.silent = True
    with pytest.raises(LineError, match="0 of 4 bytes came before the timeout"):
        Line.read(device._line, 0, 4)
    board.silent, board.answers = False, b""
    with pytest.raises(LineError, match="the NPU's response is 2"):
        device._line.set(0x1000, 0)


def test_boards_and_speeds_that_there_are_not_are_refused(tmp_path) -> None:
    with pytest.raises(SynthError, match=r"--board ulx3: no such board \(did you mean 'ulx3s'"):
        board_named("ulx3")
    board = BOARDS["ulx3s"]
    assert 'LOCATE COMP "clk" SITE "G2";' in board.constraints()
    with pytest.raises(SynthError, match="--baud 9000000: a clock of 25 MHz makes 8,333,333"):
        build_bitstream(MICRO, board, 65536, 9_000_000, tmp_path, lambda text: None)
