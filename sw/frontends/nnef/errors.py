"""`NnefError`: what is wrong with an NNEF model, where, and what to do."""

from spec.errors import SystolaError


class NnefError(SystolaError, ValueError):
    """A folder, file or archive that is no NNEF model, is damaged, or has what cannot be taken.

    reason: what is wrong. operation: of which kind, and what it makes ("conv c"). file: the
    model's. hint: what to do about it.
    """

    def __init__(self, reason: str, *, hint: str, file: str = "", operation: str = "") -> None:
        self.reason, self.hint, self.file, self.operation = reason, hint, file, operation
        place = f"operation {operation}: " if operation else ""
        super().__init__(f"{file + ': ' if file else ''}{place}{reason}\n  hint: {hint}")

    def at(self, *, file: str = "", operation: str = "") -> "NnefError":
        """The same error with the places that it lacks."""
        return NnefError(
            self.reason,
            hint=self.hint,
            file=self.file or file,
            operation=self.operation or operation,
        )
