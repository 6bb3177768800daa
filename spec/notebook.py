"""Objects in notebooks: a heading, a few facts and a table as HTML without scripts or styles.

Notebooks show what `_repr_html_` returns, and drop scripts and unknown styles from it.
"""

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 60
"""Rows of a table; the others are counted below it."""


def summary(
    title: str,
    facts: Iterable[tuple[str, object]],
    head: Sequence[str] = (),
    rows: Sequence[Sequence[object]] = (),
) -> str:
    """HTML of an object. facts: label and value; head, rows: a table. Numbers get separators."""
    lines = "".join(
        f'<tr><th style="text-align:left">{escape(label)}</th>{_cell(value)}</tr>'
        for label, value in facts
    )
    out = f"<div><b>{escape(title)}</b><table>{lines}</table>"
    if rows:
        names = "".join(f"<th>{escape(name)}</th>" for name in head)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MOST_ROWS])
        out += f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
    if len(rows) > MOST_ROWS:
        out += f"<p>… and {len(rows) - MOST_ROWS:,} more rows</p>"
    return f"{out}</div>"


def _cell(value: object) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
        return f'<td style="text-align:right">{text}</td>'
    return f'<td style="text-align:left">{escape(str(value))}</td>'
