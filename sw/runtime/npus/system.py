"""A system of several NPUs with one memory: its parameters and their rules."""

from dataclasses import dataclass

from spec.config import NpuConfig
from spec.errors import SystolaError
from spec.names import did_you_mean

MOST = 16
"""NPUs that the doorbells' page has room for."""
WIDEST = 64
"""Bytes of the widest word of the simulated memory."""
NARROW, WIDE = "narrow", "wide"
WIDTHS = (NARROW, WIDE)


class NpuSystemError(SystolaError, ValueError):
    """A system, or a use of it, that makes no sense; the message has the value and the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NpuSystem:
    """`npus` NPUs of one configuration with a memory whose words are `words` bus words wide.

    words: 1 is the memory of one NPU; a memory moves a word a cycle and direction.
    """

    config: NpuConfig
    npus: int
    words: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.npus <= MOST:
            raise NpuSystemError(f"--npus {self.npus}: must be 1…{MOST}")
        if self.words < 1 or self.words & (self.words - 1):
            raise NpuSystemError(f"memory of {self.words} bus words: must be a power of two")
        wide = self.words * self.config.bus_bytes
        if wide > WIDEST:
            raise NpuSystemError(
                f"a memory of {self.words} bus words of {self.config.bus_bytes} bytes has words of "
                f"{wide} bytes; the simulated memory has {WIDEST} at most: use a narrower memory, "
                f"or --set bus_bytes={WIDEST // self.words if self.words <= 8 else 8}"
            )

    @staticmethod
    def of(config: NpuConfig, npus: int, width: str = NARROW) -> "NpuSystem":
        """narrow: the memory of one NPU. wide: a bus word for each NPU, rounded up to a power of
        two.
        """
        if width not in WIDTHS:
            near = did_you_mean(width, WIDTHS)
            raise NpuSystemError(
                f"--shared-memory {width}: must be one of {', '.join(WIDTHS)}{near}"
            )
        words = 1 << (max(npus, 1) - 1).bit_length() if width == WIDE else 1
        return NpuSystem(config=config, npus=npus, words=words)

    @property
    def word_bytes(self) -> int:
        """Of the memory."""
        return self.words * self.config.bus_bytes

    @property
    def page_bits(self) -> int:
        """Bits of the number of a page of registers."""
        return self.npus.bit_length()

    @property
    def read_words(self) -> int:
        """Memory words that the interconnect keeps for what an NPU reads: of 512 bus words, so that
        an NPU reads a bus word a cycle from a memory that answers after some 400.
        """
        return max(512 // self.words, 1 << self._burst_words().bit_length())

    @property
    def write_words(self) -> int:
        """The same for what it writes: two of its largest bursts, or more."""
        return max(16, 2 << self._burst_words().bit_length())

    @property
    def bursts(self) -> int:
        """Bursts in flight of each id, of all NPUs together. More of them only wait in front of a
        narrow memory, with the programs behind them.
        """
        return max(64, 1 << (16 * self.npus - 1).bit_length())

    def _burst_words(self) -> int:
        """Most memory words that a burst touches."""
        return (self.config.max_burst + self.words - 2) // self.words + 1

    def parameters(self) -> dict[str, int]:
        """Of the Verilog module."""
        return {
            "N": self.npus,
            "K": self.words,
            "PAGE": self.page_bits,
            "ADDR_BITS": self.config.axi_addr_bits,
            "BUS_BYTES": self.config.bus_bytes,
            "READ_WORDS": self.read_words,
            "WRITE_WORDS": self.write_words,
            "BURSTS": self.bursts,
        }
