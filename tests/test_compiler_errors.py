"""What the message of a compiler's error is made of."""

from sw.compiler.errors import CompileError


def test_an_error_names_node_source_line_and_hint():
    error = CompileError(
        "is too large", node="conv", source="model.py:3: f(x)", module="layers.3", hint="cut it"
    )
    assert str(error) == "conv: is too large\n  at model.py:3: f(x)\n  hint: cut it"


def test_without_a_source_line_the_module_path_says_where():
    error = CompileError("is too large", node="conv", module="layers.3.conv")
    assert str(error) == "conv: is too large\n  in module layers.3.conv"
    assert str(CompileError("is too large")) == "is too large"
