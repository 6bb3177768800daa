"""`OnnxError`: what is wrong with an ONNX model, where, and what to do."""

from collections.abc import Sequence

from spec.errors import SystolaError


class OnnxError(SystolaError, ValueError):
    """A file that is no ONNX model, or one that cannot become a PyTorch module.

    file: the model's. node, operator: of its graph. hint: what to do. inputs: those of the model
    that have to be constants, where that is what is wrong.
    """

    def __init__(
        self,
        reason: str,
        *,
        hint: str,
        file: str = "",
        node: str = "",
        operator: str = "",
        inputs: Sequence[str] = (),
    ) -> None:
        self.reason, self.hint, self.file = reason, hint, file
        self.node, self.operator, self.inputs = node, operator, tuple(inputs)
        place = f"node {node} ({operator}): " if operator else ""
        super().__init__(f"{file + ': ' if file else ''}{place}{reason}\n  hint: {hint}")

    def at(self, *, file: str = "", node: str = "", operator: str = "") -> "OnnxError":
        """The same error with the places that it lacks."""
        return OnnxError(
            self.reason,
            hint=self.hint,
            file=self.file or file,
            node=self.node or node,
            operator=self.operator or operator,
            inputs=self.inputs,
        )


def refused(reason: str, hint: str = "export the model without it") -> OnnxError:
    """An error of an operator, which the walk gives its place."""
    return OnnxError(reason, hint=hint)
