"""What can go wrong in a run: hardware faults, deadlocks, hazards, bad tensors."""

from spec.errors import SystolaError
from spec.memmap import Fault


class GoldenError(SystolaError):
    """Base of every error that running a program image can raise."""


class TensorError(GoldenError, ValueError):
    """An input tensor that is missing, unknown, or of the wrong shape or type."""


class MachineFault(GoldenError):
    """The hardware would stop here: `cause`, `engine` and `index` are what its registers latch.

    region, offset: where a run begins that leaves its region; 0 for other causes.
    """

    def __init__(
        self, cause: Fault, engine: str, index: int, text: str, *, region: int = 0, offset: int = 0
    ) -> None:
        super().__init__(f"{cause.name} in {engine} at instruction {index}: {text}")
        self.cause = cause
        self.engine = engine
        self.index = index
        self.region = region
        self.offset = offset


class DeadlockError(GoldenError):
    """No engine can go on; the message has a line for each blocked one."""


class HazardError(GoldenError):
    """The result depends on timing, or on bytes that nothing wrote.

    `engine`, `index`, `space` and `address` (bytes; vectors for `acc`) name the access; `other` is
    the index of the instruction that it races with, -1 where nothing wrote.
    """

    def __init__(
        self, text: str, engine: str, index: int, space: str, address: int, other: int = -1
    ) -> None:
        super().__init__(text)
        self.engine = engine
        self.index = index
        self.space = space
        self.address = address
        self.other = other


class UndefinedError(GoldenError):
    """A value for which the contract gives no result, such as a per-channel shift below 2."""
