"""A small AXI4-Lite manager for a clock that the simulator makes itself.

With such a clock, Python wakes after the edge, when registers have already changed, so a driver
that samples `ready` on the rising edge (as cocotbext-axi does) sees the value of the next cycle.
This one drives on the falling edge and samples just before the rising one. It costs nothing while
no access is under way.
"""

from typing import Any

from cocotb.triggers import FallingEdge, ReadOnly

RESPONSES = ("OKAY", "EXOKAY", "SLVERR", "DECERR")


class AxiLiteError(Exception):
    """The subordinate answered with an error, or not at all."""


class AxiLite:
    """Reads and writes 32-bit registers of `dut`'s `s_axil_*` port, one access at a time.

    patience: cycles to wait for a handshake before `AxiLiteError`.
    """

    def __init__(self, dut: Any, patience: int = 1000) -> None:
        self._dut = dut
        self._patience = patience
        self._edge = FallingEdge(dut.clk)

    def idle(self) -> None:
        """Drive every output to its rest value."""
        for name in ("awvalid", "awaddr", "wvalid", "wdata", "bready", "arvalid", "araddr"):
            self._port(name).value = 0
        self._port("rready").value = 0
        self._port("wstrb").value = 0

    async def write(self, offset: int, value: int) -> None:
        await self._edge
        self._port("awaddr").value = offset
        self._port("wdata").value = value
        self._port("wstrb").value = 0xF
        self._port("awvalid").value = 1
        self._port("wvalid").value = 1
        self._port("bready").value = 1
        await self._send(["aw", "w"], f"write of register {offset:#05x}")
        await self._receive("b", f"write of register {offset:#05x}")

    async def read(self, offset: int) -> int:
        await self._edge
        self._port("araddr").value = offset
        self._port("arvalid").value = 1
        self._port("rready").value = 1
        await self._send(["ar"], f"read of register {offset:#05x}")
        return await self._receive("r", f"read of register {offset:#05x}")

    def _port(self, name: str) -> Any:
        return getattr(self._dut, f"s_axil_{name}")

    async def _send(self, channels: list[str], what: str) -> None:
        """Hold `valid` of each channel up to the rising edge at which its `ready` is up."""
        waiting = list(channels)
        for _ in range(self._patience):
            await ReadOnly()
            taken = [c for c in waiting if int(self._port(f"{c}ready").value)]
            answer = {"aw": "b", "w": "b", "ar": "r"}[channels[0]]
            if taken == waiting and int(self._port(f"{answer}valid").value):
                raise AxiLiteError(f"{what}: answered before it was taken")
            await self._edge
            for channel in taken:
                self._port(f"{channel}valid").value = 0
                waiting.remove(channel)
            if not waiting:
                return
        raise AxiLiteError(
            f"{what}: {waiting[0]}ready does not come within {self._patience} cycles"
        )

    async def _receive(self, channel: str, what: str) -> int:
        for _ in range(self._patience):
            await ReadOnly()
            if int(self._port(f"{channel}valid").value):
                response = int(self._port(f"{channel}resp").value)
                data = int(self._port("rdata").value) if channel == "r" else 0
                await self._edge
                self._port(f"{channel}ready").value = 0
                if response:
                    raise AxiLiteError(f"{what}: answered {RESPONSES[response]}")
                return data
            await self._edge
        raise AxiLiteError(f"{what}: {channel}valid does not come within {self._patience} cycles")
