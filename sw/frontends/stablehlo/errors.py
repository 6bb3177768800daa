"""The error of the StableHLO door."""

from spec.errors import SystolaError


class StableHloError(SystolaError, ValueError):
    """A file that is no StableHLO, is damaged, or has what cannot be taken.

    reason: what is wrong. operation: its kind ("stablehlo.sort"). place: its location as the file
    has it, the user's line where it is known. hint: what to do about it.
    """

    def __init__(
        self, reason: str, *, hint: str, file: str = "", operation: str = "", place: str = ""
    ) -> None:
        self.reason, self.hint, self.file = reason, hint, file
        self.operation, self.place = operation, place
        where = f"{operation}{f' at {place}' if place else ''}: " if operation else ""
        super().__init__(f"{file + ': ' if file else ''}{where}{reason}\n  hint: {hint}")

    def at(self, *, file: str = "", operation: str = "", place: str = "") -> "StableHloError":
        """The same error with the places that it lacks."""
        return StableHloError(
            self.reason,
            hint=self.hint,
            file=self.file or file,
            operation=self.operation or operation,
            place=self.place or place,
        )


def refused(reason: str, hint: str = "write the function without it") -> StableHloError:
    """An error of an operation, which gets its place where it is caught."""
    return StableHloError(reason, hint=hint)
