"""Figures as text: the same digits as `assets/core.js` writes, which a test compares."""

import math


def show(value: float | None) -> str:
    """Three significant digits below 100, whole numbers with commas above; `–` for None.

    Ties are rounded up, as `Math.floor(x + 0.5)` does.
    """
    if value is None:
        return "–"
    size = abs(value)
    if value == math.floor(value) and size < 1e15:
        return f"{int(value):,}"
    if size >= 100:
        return f"{math.floor(value + 0.5):,}"
    digits = 1 if size >= 10 else 2
    while digits < 9 and size * 10 ** (digits - 2) < 1:
        digits += 1
    scale = 10**digits
    return f"{math.floor(value * scale + 0.5) / scale:.{digits}f}"


def two_digits(value: float, *, up: bool) -> float:
    """`value` with two significant digits, rounded up or down: a threshold that is easy to read."""
    if value <= 0:
        return 0.0
    exponent = math.floor(math.log10(value)) - 1
    steps = value / 10.0**exponent
    whole = math.ceil(steps - 1e-9) if up else math.floor(steps + 1e-9)
    return float(f"{whole}e{exponent}")
