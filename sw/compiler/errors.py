"""Errors of the compiler: each names the node, its source line where known, and a way out."""

from spec.errors import SystolaError


class CompileError(SystolaError):
    """A graph that cannot be compiled.

    `node` is the operator's or layer's name. `source` is the line of the user's model that it came
    from. `module` is the path of its submodule ("layers.3.conv"), which the message has where there
    is no source line. `hint` says what to do about it.
    """

    def __init__(
        self, message: str, *, node: str = "", source: str = "", module: str = "", hint: str = ""
    ) -> None:
        self.node, self.source, self.module, self.hint = node, source, module, hint
        where = f"{node}: " if node else ""
        line = f"\n  at {source}" if source else f"\n  in module {module}" if module else ""
        way_out = f"\n  hint: {hint}" if hint else ""
        super().__init__(f"{where}{message}{line}{way_out}")


class GraphError(CompileError):
    """A TOSA graph that is not well formed."""


class LegalityError(CompileError):
    """A stage produced something its legality check refuses: a bug in the compiler."""
