"""Scratchpad buffers of a tiled plan, for what a tile reads and what it gives."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """Activations, weights, results and residuals: buffers in rotation (slots), bytes of each."""

    act_slots: int
    wgt_slots: int
    out_slots: int
    res_slots: int
    act_bytes: int
    wgt_bytes: int
    out_bytes: int
    res_bytes: int

    @property
    def spad_bytes(self) -> int:
        """Scratchpad bytes of all buffers."""
        used = self.act_slots * self.act_bytes + self.wgt_slots * self.wgt_bytes
        return used + self.out_slots * self.out_bytes + self.res_slots * self.res_bytes

    @property
    def buffers_text(self) -> str:
        """As the dump of a plan has them."""
        return (
            f"act {self.act_slots}x{self.act_bytes} wgt {self.wgt_slots}x{self.wgt_bytes} "
            f"out {self.out_slots}x{self.out_bytes}"
            + (f" residual {self.res_slots}x{self.res_bytes}" if self.res_slots else "")
        )
