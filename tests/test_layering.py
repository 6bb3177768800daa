"""Who may import whom, and how large things may grow, read from the source of every module."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from sw.models.table import NETWORKS

ROOT = Path(__file__).resolve().parent.parent
OURS = ("spec", "hw_gen", "golden_model", "sw", "cocotb_tests", "systola", "tests", "examples")

ALLOWED = {
    "spec": {"spec"},
    "golden_model": {"spec", "golden_model"},
    "hw_gen": {"spec", "hw_gen"},
    "sw.compiler": {"spec", "sw.compiler"},
    "sw.frontends": {"spec", "sw.compiler", "sw.frontends", "sw.frontends.executorch"},
    "sw.frontends.delegates": {
        *("spec", "sw.compiler", "sw.runtime", "sw.torch_backend", "sw.frontends.delegates"),
    },
    "sw.frontends.executorch": {
        *("spec", "sw.compiler", "sw.runtime", "sw.torch_backend", "sw.frontends.delegates"),
        "sw.frontends.executorch",
    },
    "sw.frontends.onnxruntime": {
        *("spec", "sw.compiler", "sw.torch_backend", "sw.frontends", "sw.frontends.delegates"),
        "sw.frontends.onnxruntime",
    },
    "sw.frontends.tvm": {
        *("spec", "sw.compiler", "sw.torch_backend", "sw.frontends", "sw.frontends.delegates"),
        "sw.frontends.tvm",
    },
    "sw.runtime": {"spec", "golden_model", "hw_gen", "sw.compiler", "sw.runtime"},
    "sw.language": {"spec", "golden_model", "sw.compiler", "sw.runtime", "sw.language"},
    "sw.synth": {"spec", "hw_gen", "sw.runtime", "sw.synth"},
    "sw.models": {"spec", "sw.compiler", "sw.frontends", "sw.runtime", "sw.models"},
    "sw.results": {"spec", "sw.results"},
    "sw.torch_backend": {
        *("spec", "sw.compiler", "sw.runtime", "sw.language", "sw.torch_backend"),
    },
    "sw.torch_device": {
        *("spec", "sw.compiler", "sw.runtime", "sw.torch_backend", "sw.torch_device"),
    },
    "sw.measure": {
        *("spec", "golden_model", "hw_gen"),
        *("sw.compiler", "sw.runtime", "sw.models", "sw.torch_backend", "sw.measure"),
        *("sw.frontends.delegates", "sw.frontends.executorch", "sw.results"),
    },
    "sw.measure.doors": {
        *("spec", "sw.compiler", "sw.runtime", "sw.models", "sw.torch_backend", "sw.frontends"),
        *("sw.frontends.delegates", "sw.frontends.executorch", "sw.frontends.onnxruntime"),
        *("sw.measure", "sw.results", "sw.measure.doors"),
    },
    "sw.energy": {
        *("spec", "sw.compiler", "sw.runtime", "sw.models", "sw.synth", "sw.measure", "sw.energy"),
    },
    "sw.campaign": {
        *("spec", "golden_model", "hw_gen", "sw.compiler", "sw.runtime", "sw.models", "sw.synth"),
        *("sw.torch_backend", "sw.measure", "sw.energy", "sw.results", "sw.campaign"),
    },
    "sw.report": {"spec", "sw.runtime", "sw.measure", "sw.results", "sw.campaign", "sw.report"},
    "sw.cli": {
        *("spec", "golden_model", "hw_gen", "sw.compiler", "sw.runtime", "sw.models"),
        *("sw.torch_backend", "sw.synth", "sw.measure", "sw.energy", "sw.results", "sw.campaign"),
        *("sw.language", "sw.report", "sw.cli", "sw.frontends.executorch"),
    },
    "systola": {
        *("spec", "sw.compiler", "sw.frontends", "sw.runtime", "sw.language", "sw.torch_backend"),
        *("sw.torch_device", "sw.cli", "sw.frontends.delegates", "sw.frontends.executorch"),
        *("sw.frontends.onnxruntime", "sw.frontends.tvm", "systola"),
    },
}
EXTERNAL = {
    "spec": {"numpy"},
    "golden_model": {"numpy"},
    "hw_gen": {"amaranth", "numpy"},
}


SOURCES = ("spec", "golden_model", "hw_gen", "sw", "systola")
"""What the rules of form hold for: all but tests, benches and examples."""

CIRCLES: set[frozenset[str]] = set()
"""Files that import each other in a circle. This list only ever gets shorter."""

COMPLEXITY = 20
TOO_COMPLEX: set[str] = set()
"""Functions above COMPLEXITY. This list only ever gets shorter."""

LINES = 500
FILES_IN_A_FOLDER = 25


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(path):
    """Every absolute module name that the file imports, wherever it does."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(parsed(path)):
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
    if ".".join(parts[:3]) in ALLOWED:
        return ".".join(parts[:3])
    return ".".join(parts[:2]) if parts[0] == "sw" else parts[0]


def modules(package):
    files = sorted((ROOT / package.replace(".", "/")).rglob("*.py"))
    assert files, f"{package} has no modules"
    return files


def members(package):
    """The files of a layer, without those of a layer inside it."""
    return [path for path in modules(package) if layer(module_name(path)) == package]


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_follow_the_layers(package):
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in members(package)
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


# Names in strings ------------------------------------------------------------------------------

STARTS = {"sw.runtime": {"cocotb_tests.harness.server"}, "sw.campaign": {"systola"}}
"""Modules that a layer starts in another process although it may not import them."""

NAME = re.compile(rf"(?:{'|'.join(OURS)})(?:\.[a-z_]\w*)+(?::\w+)?")
QUOTED = re.compile(r"[\"']([\w.]+:\w+)[\"']")
STARTED = re.compile(r"(?<!\S)-m (\w[\w.]*)")
FILE_ENDINGS = (".core", ".sqlite", ".txt")
FILES = ("Makefile", "pyproject.toml", "systola.core", "README.md", "CONTRIBUTING.md")


@dataclass(frozen=True)
class Name:
    """A module that a text names: `module` or `module:member`. started: with `python -m`."""

    text: str
    started: bool = False


def ours(text: str) -> bool:
    return text.split(".")[0] in OURS


def names_in_source(path: Path) -> Iterator[Name]:
    """The strings of a Python file that are names of our modules, and the items behind a `-m`."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.List | ast.Tuple):
            texts = [getattr(item, "value", None) for item in node.elts]
            after = [text for dash, text in pairwise(texts) if dash == "-m"]
            yield from (Name(text, started=True) for text in after if text and ours(text))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_name = NAME.fullmatch(node.value) and not node.value.endswith(FILE_ENDINGS)
            yield from [Name(node.value)] if is_name else []


def names_in_text(text: str) -> Iterator[Name]:
    """What a Makefile, a page or a docstring starts with `-m`, and entry points in quotes."""
    started = (match.rstrip(".") for match in STARTED.findall(text))
    yield from (Name(name, started=True) for name in started if ours(name))
    yield from (Name(name) for name in QUOTED.findall(text) if ours(name))


def fault(name: Name) -> str:
    """What is wrong with a name, or nothing."""
    module, _, member = name.text.partition(":")
    folder = ROOT / module.replace(".", "/")
    path = folder.with_suffix(".py")
    if folder.is_dir():
        path = folder / ("__main__.py" if name.started else "__init__.py")
    if not path.exists():
        return "there is no such module"
    text = path.read_text()
    if name.started and path.name != "__main__.py" and "__main__" not in text:
        return "python -m would do nothing"
    members = {
        target
        for node in ast.parse(text).body
        for target in (getattr(node, "name", None), *map(ast.unparse, getattr(node, "targets", ())))
    }
    return f"the module has no {member}" if member and member not in members else ""


def test_modules_named_in_strings_exist() -> None:
    found = [
        (path, name)
        for top in (*SOURCES, "rtl", "tools", "cocotb_tests", "examples")
        for path in sorted((ROOT / top).rglob("*.py"))
        for name in names_in_source(path)
    ]
    texts = [*(ROOT / name for name in FILES), *sorted((ROOT / "docs").rglob("*.md"))]
    texts += source_files()
    found += [(path, name) for path in texts for name in names_in_text(path.read_text())]
    found += [(ROOT / "sw/models/table.py", Name(":".join(s.builder))) for s in NETWORKS.values()]
    assert len(found) > 50
    wrong = [f"{path.relative_to(ROOT)}: {name.text}: {fault(name)}" for path, name in found]
    assert [line for line in wrong if not line.endswith(": ")] == []


@pytest.mark.parametrize("package", ALLOWED)
def test_modules_named_in_strings_follow_the_layers(package) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} names {name.text}"
        for path in members(package)
        for name in names_in_source(path)
        if layer(name.text.partition(":")[0]) not in ALLOWED[package]
        and name.text not in STARTS.get(package, ())
    ]
    assert wrong == []


def test_the_check_sees_names_in_strings(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "a.py").write_text("def f(): ...\nG = 1\n")
    source = (
        "x = 'spec.b'\ny = 'spec.a:f', 'spec.a:g', 'spec.a:G'\n"
        "z = [exe, '-m', 'spec']\nn = 'systola.core'\n"
    )
    (tmp_path / "m.py").write_text(source)
    assert {name.text: fault(name) for name in names_in_source(tmp_path / "m.py")} == {
        "spec.b": "there is no such module",
        "spec.a:f": "",
        "spec.a:g": "the module has no g",
        "spec.a:G": "",
        "spec": "there is no such module",
    }
    assert fault(Name("spec.a", started=True)) == "python -m would do nothing"
    assert [*names_in_text('t:\n\t@$(PY) -m spec.x --y\ns = "spec.z:main"')] == [
        Name("spec.x", started=True),
        Name("spec.z:main"),
    ]


# Circles --------------------------------------------------------------------------------------


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_between(files: Mapping[str, Path]) -> dict[str, set[str]]:
    """Which of `files` each of them names in an import: in functions and TYPE_CHECKING too.

    `from package import module` names the module, not the package's own file.
    """
    edges = {}
    for name, path in files.items():
        named = set()
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                members = {f"{node.module}.{alias.name}" for alias in node.names}
                named |= {m if m in files else f"{node.module}" for m in members}
        edges[name] = (named & files.keys()) - {name}
    return edges


def circles(edges: Mapping[str, Set[str]]) -> Iterator[frozenset[str]]:
    """Strongly connected components of more than one node (Tarjan)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(node: str) -> Iterator[frozenset[str]]:
        number[node] = low[node] = len(number)
        stack.append(node)
        for target in edges[node]:
            if target not in number:
                yield from visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], number[target])
        if low[node] == number[node]:
            at = stack.index(node)
            members = frozenset(stack[at:])
            del stack[at:]
            if len(members) > 1:
                yield members

    for node in edges:
        if node not in number:
            yield from visit(node)


def source_files() -> list[Path]:
    return [path for package in SOURCES for path in modules(package)]


def test_files_import_each_other_in_no_circle() -> None:
    found = set(circles(imports_between({module_name(path): path for path in source_files()})))
    new = [" -> ".join(sorted(members)) for members in found - CIRCLES]
    assert new == [], "files import each other in a circle: move what both need to a third"
    gone = [" -> ".join(sorted(members)) for members in CIRCLES - found]
    assert gone == [], "these circles are gone: take them off CIRCLES"


def test_the_check_sees_circles(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "spec").mkdir()
    sources = {
        "spec/a.py": "import spec.b",
        "spec/b.py": "def f():\n    from spec import c",
        "spec/c.py": "if TYPE_CHECKING:\n    from spec.a import A",
        "spec/d.py": "import spec.a",
    }
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    files = {module_name(path): path for path in modules("spec")}
    assert [*circles(imports_between(files))] == [frozenset({"spec.a", "spec.b", "spec.c"})]


# Size -----------------------------------------------------------------------------------------


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def complexity(function: ast.AST) -> int:
    """Cyclomatic: one, and one more for each decision outside of nested functions."""
    total, nodes = 1, [*ast.iter_child_nodes(function)]
    while nodes:
        match node := nodes.pop():
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                continue
            case ast.comprehension():
                total += 1 + len(node.ifs)
            case ast.BoolOp():
                total += len(node.values) - 1
            case ast.If() | ast.IfExp() | ast.For() | ast.AsyncFor() | ast.While():
                total += 1
            case ast.ExceptHandler() | ast.match_case():
                total += 1
        nodes += ast.iter_child_nodes(node)
    return total


def test_no_function_is_too_complex() -> None:
    found = {
        f"{path.relative_to(ROOT)} {function.name}": n
        for path in source_files()
        for function in functions(path)
        if (n := complexity(function)) > COMPLEXITY
    }
    new = {name: n for name, n in found.items() if name not in TOO_COMPLEX}
    assert new == {}, f"complexity above {COMPLEXITY}: divide these functions"
    assert TOO_COMPLEX - found.keys() == set(), "these are mended: take them off TOO_COMPLEX"


def test_complexity_counts_decisions() -> None:
    source = "def f(a):\n if a and a or a:\n  return [x for x in a if x]\n for b in a: pass\n"
    (function,) = ast.parse(source).body
    assert complexity(function) == 1 + 1 + 2 + 2 + 1


def test_no_file_is_too_long() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in source_files()}
    long = {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > LINES}
    assert long == {}, f"more than {LINES} lines: such a file holds two ideas"


def test_no_folder_of_the_software_has_too_many_files() -> None:
    counts = Counter(path.parent for path in modules("sw"))
    full = {str(folder.relative_to(ROOT)): n for folder, n in counts.items()}
    assert {f: n for f, n in full.items() if n > FILES_IN_A_FOLDER} == {}
