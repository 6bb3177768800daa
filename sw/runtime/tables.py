"""Tables for a terminal that stay readable where it is narrow: columns fold, or are left out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table

_FRAME = 3
"""Characters that a column has beside its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a `FittedTable`.

    rank: 0 is always shown; of the others those of the highest rank go first. fold: the column may
    become as narrow as this, its text on several lines (0: it never folds).
    """

    name: str
    rank: int = 0
    justify: Literal["left", "right"] = "left"
    fold: int = 0


def left(name: str, rank: int = 0, fold: int = 0) -> Column:
    """A column of text."""
    return Column(name=name, rank=rank, fold=fold)


def right(name: str, rank: int = 0) -> Column:
    """A column of numbers."""
    return Column(name=name, rank=rank, justify="right")


@dataclass(slots=True)
class FittedTable:
    """Rows under columns; what does not fit in the console is left out and named below."""

    columns: Sequence[Column]
    title: str = ""
    rows: list[Sequence[str]] = field(default_factory=list)
    _sections: set[int] = field(default_factory=set)

    def add_row(self, *cells: str) -> None:
        """Add a row; cells that are not given are empty."""
        self.rows.append([*cells, *[""] * (len(self.columns) - len(cells))])

    def add_section(self) -> None:
        """Draw a line below the last row."""
        self._sections.add(len(self.rows))

    def shown(self, width: int) -> list[Column]:
        """The columns that fit in `width` characters."""
        shown = list(self.columns)
        while _outer(map(self._least, shown)) > width:
            worst = max(range(len(shown)), key=lambda i: (shown[i].rank, i))
            if not shown[worst].rank:
                break
            del shown[worst]
        return shown

    def _natural(self, column: Column) -> int:
        """How wide the column is where it need not fold."""
        at = self.columns.index(column)
        texts = [column.name, *(row[at] for row in self.rows)]
        return max(cell_len(line) for text in texts for line in text.split("\n"))

    def _least(self, column: Column) -> int:
        natural = self._natural(column)
        return min(natural, column.fold or natural)

    def _widths(self, shown: Sequence[Column], width: int) -> list[int]:
        """Of each column; those that fold share what is left over, the first ones first."""
        widths = [self._least(column) for column in shown]
        spare = width - _outer(widths)
        for i, column in enumerate(shown):
            more = max(0, min(spare, self._natural(column) - widths[i]))
            widths[i] += more
            spare -= more
        return widths

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        shown = self.shown(options.max_width)
        table = Table(title=self.title or None, title_justify="left")
        for column, width in zip(shown, self._widths(shown, options.max_width), strict=True):
            table.add_column(column.name, justify=column.justify, overflow="fold", width=width)
        places = [self.columns.index(column) for column in shown]
        for number, row in enumerate(self.rows):
            last = number + 1 in self._sections
            table.add_row(*(row[at] for at in places), end_section=last)
        yield table
        hidden = [c.name.replace("\n", "") for c in self.columns if c not in shown]
        if hidden:
            yield f"not shown in {options.max_width} columns: {', '.join(hidden)}"


def _outer(widths: Iterable[int]) -> int:
    """How wide a table of these columns is with its frame."""
    return sum(width + _FRAME for width in widths) + 1
