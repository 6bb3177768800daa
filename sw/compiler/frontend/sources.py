"""Where a node of a captured graph comes from in the user's model."""

import re

from torch.fx import Node

_ROOTS = ("self", "fn", "")
"""Names by which Dynamo calls the model itself."""

_NOT_THE_USERS = ("/torch/", "/sw/frontends/")
"""Parts of paths of code that no model is written in: of a file's model the module says more."""


def source_line(node: Node) -> str:
    """`file:line: code` in the user's model that `node` comes from, '' if unknown.

    The innermost frame outside the torch package and outside what reads files of models.
    """
    lines = (node.meta.get("stack_trace") or "").splitlines()
    best = ""
    for i, line in enumerate(lines):
        text = line.strip()
        path, _, rest = text[6:].partition('", line ')
        if text.startswith('File "') and not any(
            part in path.replace("\\", "/") for part in _NOT_THE_USERS
        ):
            code = lines[i + 1].strip() if i + 1 < len(lines) else ""
            best = f"{path}:{rest.split(',')[0]}: {code}"
    return best


def module_path(node: Node) -> str:
    """Path of the submodule of the user's model that `node` comes from, '' for the model itself."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


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
