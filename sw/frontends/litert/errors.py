"""The error of the LiteRT door."""

from spec.errors import SystolaError


class LiteRtError(SystolaError, ValueError):
    """A file that is no LiteRT model, is damaged, or has what cannot be taken.

    file: its name. operator: number and kind ("operator 3 (CONV_2D)"). tensor: its name. hint: what
    to do about it.
    """

    def __init__(
        self, message: str, *, file: str, operator: str = "", tensor: str = "", hint: str = ""
    ) -> None:
        self.file, self.operator, self.tensor, self.hint = file, operator, tensor, hint
        named = f"tensor {tensor!r}" if tensor else ""
        where = ", ".join(part for part in (operator, named) if part)
        way_out = f"\n  hint: {hint}" if hint else ""
        super().__init__(f"{file}: {where}{': ' if where else ''}{message}{way_out}")
