"""Tiles and boxes: pieces of an NHWC tensor, and what windows over them read."""

from dataclasses import dataclass

from sw.compiler.kernels.views import View

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Output rows y0…y1 and columns x0…x1 of one image."""

    batch: int
    y0: int
    y1: int
    x0: int
    x1: int

    @property
    def rows(self) -> int:
        return self.y1 - self.y0

    @property
    def cols(self) -> int:
        return self.x1 - self.x0

    @property
    def vectors(self) -> int:
        return self.rows * self.cols


@dataclass(frozen=True, slots=True, kw_only=True)
class Box(Tile):
    """Channels c0…c1 of a tile."""

    c0: int
    c1: int

    @property
    def channels(self) -> int:
        return self.c1 - self.c0

    @property
    def elements(self) -> int:
        return self.vectors * self.channels


def address(view: View, box: Box) -> int:
    """Byte offset of the first element of `box` in the tensor of `view`."""
    s0, s1, s2 = view.strides
    at = view.offset + box.batch * s0 + box.y0 * s1 + box.x0 * s2
    return at + box.c0 * view.item


def clip(start: int, stop: int, size: int) -> Range:
    """The part of start…stop that lies in 0…size."""
    start = min(max(start, 0), size)
    return start, max(start, min(stop, size))


def halvings(size: int, unit: int) -> list[int]:
    """size, then about half as often as possible, in multiples of `unit`."""
    out = [size]
    while out[-1] > unit:
        out.append(max(unit, -(-(out[-1] // 2) // unit) * unit))
        if out[-1] == out[-2]:
            break
    return out
