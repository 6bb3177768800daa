"""Where in the user's model a node comes from."""

import re

from torch.fx import Node

from sw.compiler.frontend.capture import module_path, source_line

_ROOTS = ("self", "fn", "")
"""Names by which Dynamo calls the model itself."""


def module_of(node: Node) -> str:
    """Path of the submodule, such as "layers.3.conv"; '' for the model itself.

    Dynamo writes "L['self'].layers.3.conv": the name of a local variable, then the path.
    """
    path = re.sub(r"\._modules\['(\w+)'\]", r".\1", module_path(node))
    found = re.fullmatch(r"[LG]\['(\w*)'\](?:\.(.*))?", path)
    if found is None:
        return path
    name, rest = found[1], found[2] or ""
    return rest if name in _ROOTS else f"{name}.{rest}".rstrip(".")


def line_of(node: Node) -> str:
    """`file:line: code` of the user's model; '' where PyTorch knows its own generated code only."""
    line = source_line(node)
    return "" if line.startswith("<eval_with_key>") else line


def line_or_module(node: Node) -> str:
    """The source line of a node; where PyTorch knows none (in `nn.Sequential`), its module."""
    module = module_of(node)
    return line_of(node) or (f"module {module}" if module else "")
