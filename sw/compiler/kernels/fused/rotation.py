"""Buffers on chip that a fused layer's tiles take turns in."""

from collections.abc import Hashable
from dataclasses import dataclass

from sw.compiler.program.virtual import Access, Buffer, Place


@dataclass(frozen=True, slots=True)
class Held:
    """Where a register lies: `size` bytes or vectors from `at` of `buffer` on."""

    buffer: Buffer
    at: int
    size: int

    @property
    def acc(self) -> bool:
        return self.buffer.place is Place.ACC

    def access(self, *, write: bool) -> Access:
        return Access(buffer=self.buffer, start=self.at, stop=self.at + self.size, write=write)


class Rotation:
    """Buffers by what they hold; what tiles still to be computed need is never given away.

    Of the others the one goes first that has not been asked for longest.
    """

    def __init__(self, buffers: list[Held]) -> None:
        self.free = list(buffers)
        self.held: dict[Hashable, Held] = {}

    def take(self, key: Hashable, needed: set[Hashable]) -> tuple[Held, bool]:
        """(the buffer of `key`, whether it is new to it)."""
        if key in self.held:
            self.held[key] = self.held.pop(key)
            return self.held[key], False
        if not self.free:
            # Buffers are as many as tiles ahead need, so one of the others is held.
            old = next(k for k in self.held if k not in needed)
            self.free.append(self.held.pop(old))
        self.held[key] = self.free.pop(0)
        return self.held[key], True

    def forget(self, key: Hashable) -> None:
        """What the buffer of `key` held is no longer there."""
        self.free.append(self.held.pop(key))
