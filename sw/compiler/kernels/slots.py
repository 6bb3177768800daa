"""Rotating buffers as a small cache: which key's data lies in which slot."""

from collections.abc import Hashable

from sw.compiler.program.virtual import Buffer


class Slots:
    """Buffers handed out in rotation; a key that is still held is not given a new one."""

    def __init__(self, buffers: list[Buffer]) -> None:
        self.buffers = buffers
        self.keys: list[Hashable | None] = [None] * len(buffers)
        self.next = 0

    def get(self, key: Hashable, pinned: Hashable | None) -> tuple[Buffer | None, bool]:
        """(buffer of `key`, whether it is new to it); (None, False) if `pinned` is in the way."""
        if key in self.keys:
            return self.buffers[self.keys.index(key)], False
        if pinned is not None and self.keys[self.next] == pinned:
            return None, False
        at = self.next
        self.keys[at] = key
        self.next = (at + 1) % len(self.buffers)
        return self.buffers[at], True
