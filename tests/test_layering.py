"""Who may import whom, read from the source of every module."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = ("spec", "hw_gen", "golden_model", "sw", "cocotb_tests", "systola", "tests", "examples")

ALLOWED = {
    "spec": {"spec"},
    "golden_model": {"spec", "golden_model"},
    "hw_gen": {"spec", "hw_gen"},
    "sw.compiler": {"spec", "sw.compiler"},
    "sw.runtime": {"spec", "golden_model", "hw_gen", "sw.compiler", "sw.runtime"},
    "sw.models": {"spec", "sw.compiler", "sw.runtime", "sw.models"},
    "sw.torch_backend": {"spec", "sw.compiler", "sw.runtime", "sw.torch_backend"},
    "sw.measure": {
        *("spec", "golden_model", "hw_gen"),
        *("sw.compiler", "sw.runtime", "sw.models", "sw.torch_backend", "sw.measure"),
    },
    "sw.cli": {
        *("spec", "golden_model", "hw_gen", "sw.compiler", "sw.runtime", "sw.models"),
        *("sw.torch_backend", "sw.measure", "sw.cli"),
    },
    "systola": {"spec", "sw.compiler", "sw.runtime", "sw.torch_backend", "sw.cli"},
}
EXTERNAL = {
    "spec": {"numpy"},
    "golden_model": {"numpy"},
    "hw_gen": {"amaranth", "numpy"},
}


def imported(path):
    """Every absolute module name that the file imports, wherever it does."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module == "sw":
                yield from (f"sw.{alias.name}" for alias in node.names)
            else:
                yield module


def layer(module):
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "sw" else parts[0]


def modules(package):
    files = sorted((ROOT / package.replace(".", "/")).rglob("*.py"))
    assert files, f"{package} has no modules"
    return files


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_follow_the_layers(package):
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(package)
        for name in imported(path)
        if name.split(".")[0] in OURS and layer(name) not in ALLOWED[package]
    ]
    assert wrong == []


@pytest.mark.parametrize("package", EXTERNAL)
def test_contract_model_and_generator_need_few_other_packages(package):
    allowed = set(sys.stdlib_module_names) | set(OURS) | EXTERNAL[package]
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(package)
        for name in imported(path)
        if name.split(".")[0] not in allowed
    ]
    assert wrong == []


def test_the_check_sees_imports(tmp_path, monkeypatch):
    source = "import sw.runtime.x\nfrom sw import runtime\ndef f():\n    from hw_gen import y\n"
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    path = tmp_path / "m.py"
    path.write_text(source)
    assert list(imported(path)) == ["sw.runtime.x", "sw.runtime", "hw_gen"]
    assert [layer(m) for m in imported(path)] == ["sw.runtime", "sw.runtime", "hw_gen"]


@pytest.mark.parametrize("module", ["systola", "sw.cli.main", "spec"])
def test_heavy_packages_are_imported_only_when_used(module):
    code = (
        f"import sys, {module}; "
        "print(sorted({'torch', 'amaranth', 'torchao', 'cocotb', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[]"
