"""Errors of kernels: each names the kernel, the line of its source, the value, and a way out."""

from sw.compiler.errors import CompileError


class KernelError(CompileError):
    """A kernel that cannot be traced or compiled."""


class AccumulatorFullError(KernelError):
    """Tiles that live at once do not fit in the accumulator."""


class ApartError(Exception):
    """Elements that do not lie regularly enough for an instruction; the emitter says where."""


class RaceError(KernelError):
    """Two accesses whose order nothing decides, or a tile that is read after others took its place.

    `first`, `second`: statement, tile and addresses of each, in the order of the source.
    """

    def __init__(
        self, message: str, *, first: str, second: str, node: str, source: str, hint: str
    ) -> None:
        self.first, self.second = first, second
        text = f"{message}\n  first:  {first}\n  second: {second}"
        super().__init__(text, node=node, source=source, hint=hint)
