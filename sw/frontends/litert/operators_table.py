"""The table of operators as text: taken as float, taken as int8, refused.

`python -m sw.frontends.litert.operators_table` prints it, with every operator of the schema.
"""

import sys
import textwrap
from collections.abc import Iterator

from sw.frontends.litert.schema import names, tflite
from sw.frontends.litert.table import FAMILIES, ROWS


def refused() -> list[str]:
    """The operators of the schema that are not taken, in its order."""
    tflite("operators")  # says what to install where the schema is missing
    return [name for name in names("BuiltinOperator").values() if name not in ROWS]


def lines() -> Iterator[str]:
    """A table in Markdown, then the names of what is refused."""
    yield "| family | float and int8 | float and integers only |"
    yield "|---|---|---|"
    for family, rows in FAMILIES.items():
        both = ", ".join(kind for kind, row in rows.items() if row.int8)
        one = ", ".join(kind for kind, row in rows.items() if not row.int8)
        yield f"| {family} | {both} | {one} |"
    names = refused()
    int8 = sum(row.int8 for row in ROWS.values())
    yield ""
    yield f"Taken as float: {len(ROWS)}. Taken as int8: {int8}. Refused: {len(names)}."
    yield ""
    yield from textwrap.wrap(f"Refused: {', '.join(names)}.", 100)


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
