"""Commands on the serial line of `hw_gen.fpga`: memory and registers of the NPU behind it."""

import struct
from typing import Protocol

from spec.errors import SystolaError

MAGIC = b"SYS1"
ACKNOWLEDGED = b"\x06"
CHUNK = 4096
"""Bytes of memory in one command."""


class LineError(SystolaError):
    """The board does not answer as it should."""


class Stream(Protocol):
    """A serial port. `read` returns fewer bytes than asked for after a timeout."""

    def write(self, data: bytes, /) -> int | None: ...

    def read(self, size: int = ..., /) -> bytes: ...


class Line:
    """The commands; every method is a `LineError` where the answer is not there in time.

    memory_bytes : of the board's memory.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._send("I", 0, 0)
        answer = self._stream.read(8)
        if answer[:4] != MAGIC:
            raise LineError(
                f"the board answers {answer.hex(' ') or 'nothing'} to I, not {MAGIC.decode()!r} "
                "and its memory; is it the right port and speed, and its bitstream loaded?"
            )
        (self.memory_bytes,) = struct.unpack("<I", self._rest(answer[4:], 4, "I"))

    def write(self, address: int, data: bytes) -> None:
        """Bytes to memory."""
        for at in range(0, len(data), CHUNK):
            part = data[at : at + CHUNK]
            self._send("W", address + at, len(part), part)
            answer = self._answer(1, f"W of {len(part)} bytes at {address + at:#x}")
            if answer != ACKNOWLEDGED:
                raise LineError(f"W at {address + at:#x}: the board answers {answer.hex()}, not 06")

    def read(self, address: int, count: int) -> bytes:
        """Bytes of memory."""
        out = []
        for at in range(0, count, CHUNK):
            size = min(CHUNK, count - at)
            self._send("R", address + at, size)
            out.append(self._answer(size, f"R of {size} bytes at {address + at:#x}"))
        return b"".join(out)

    def set(self, offset: int, value: int) -> None:
        """Write a register."""
        self._send("w", offset, value)
        self._check(self._answer(1, f"w of register {offset:#x}")[0], offset)

    def get(self, offset: int) -> int:
        """Read a register."""
        self._send("r", offset, 0)
        value, response = struct.unpack("<IB", self._answer(5, f"r of register {offset:#x}"))
        self._check(response, offset)
        return int(value)

    def _send(self, letter: str, address: int, number: int, data: bytes = b"") -> None:
        self._stream.write(struct.pack("<cII", letter.encode(), address, number) + data)

    def _answer(self, count: int, what: str) -> bytes:
        return self._rest(b"", count, what)

    def _rest(self, begun: bytes, count: int, what: str) -> bytes:
        answer = begun + (self._stream.read(count - len(begun)) if len(begun) < count else b"")
        if len(answer) < count:
            raise LineError(f"{what}: {len(answer)} of {count} bytes came before the timeout")
        return answer

    @staticmethod
    def _check(response: int, offset: int) -> None:
        if response:
            raise LineError(f"register {offset:#x}: the NPU's response is {response}, not 0 (OKAY)")
