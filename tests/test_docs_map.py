"""docs/map.md and the docstrings of packages lead to files that exist, and leave no folder out."""

import ast
import re
from pathlib import Path

from test_docs_pages import ROOT, TRACKED

MAP = ROOT / "docs" / "map.md"
SPAN = re.compile(r"`([^`]+)`")
FILE = re.compile(r"[\w./-]*\w\.(?:py|sv|cpp|h|yaml|vlt)\b")
SOURCES = (".py", ".sv", ".cpp", ".h", ".yaml", ".vlt")
PACKAGES = ("spec", "hw_gen", "rtl", "golden_model", "sw", "systola", "cocotb_tests", "examples")
"""Where a newcomer looks for a file; tests and tools are named where a subject needs them."""


def rows(text):
    """The cells of each row of the map's tables: a subject, and where it is."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells != ["to know or change", "file"]:
            yield cells


def spans(cell):
    return [span for span in SPAN.findall(cell) if " " not in span and "*" not in span]


def is_path(span):
    return "/" in span or "." in span or span == "Makefile"


def wrong_in(text):
    """Rows that are no pair, that name a file which is not there, or a name that no file has."""
    for cells in rows(text):
        if len(cells) != 2:
            yield f"{cells[0]}: not two cells"
            continue
        named = spans(cells[1])
        paths = [span for span in named if is_path(span)]
        files = [ROOT / p for p in paths if p in TRACKED]
        for path in paths:
            whole = path in TRACKED or any(known.startswith(path) for known in TRACKED)
            if not whole or (path not in TRACKED and not path.endswith("/")):
                yield f"{cells[0]}: no file or folder/ {path}, from the root of the repository"
        for name in (span for span in named if span.isidentifier() and not is_path(span)):
            if not any(re.search(rf"\b{name}\b", file.read_text()) for file in files):
                yield f"{cells[0]}: none of its files has `{name}`"
        if not paths and "](" not in cells[1]:
            yield f"{cells[0]}: names no file"


def docstring_of(package):
    return ast.get_docstring(ast.parse(package.read_text())) or ""


def missing_beside(package):
    """The files that a package's docstring names and that are neither in it nor in the tree."""
    for name in FILE.findall(docstring_of(package)):
        if name not in TRACKED and not (package.parent / name).is_file():
            yield f"{package.relative_to(ROOT)}: no file {name} in that folder or in the tree"


def test_every_row_of_the_map_leads_to_files_that_exist():
    assert list(wrong_in(MAP.read_text())) == []


def test_every_folder_of_the_packages_is_in_the_map():
    named = {p.rstrip("/") for cells in rows(MAP.read_text()) for p in spans(cells[-1])}
    folders = {
        str(Path(name).parent)
        for name in TRACKED
        if name.startswith(tuple(f"{p}/" for p in PACKAGES))
        and name.endswith(SOURCES)
        and not name.endswith("__init__.py")
    }
    seen = named | {str(Path(p).parent) for p in named}
    assert sorted(folders - seen) == [], "docs/map.md needs a row for a file of these folders"


def test_docstrings_of_packages_name_files_that_exist():
    packages = [ROOT / name for name in TRACKED if name.endswith("__init__.py")]
    assert [wrong for package in packages for wrong in missing_beside(package)] == []


def test_packages_of_several_files_say_what_is_where():
    text = MAP.read_text()
    silent = []
    for name in TRACKED:
        package = ROOT / name
        if name.endswith("__init__.py") and name.startswith(tuple(f"{p}/" for p in PACKAGES)):
            files = [str(p.relative_to(ROOT)) for p in package.parent.glob("*.py") if p != package]
            in_map = all(f"`{file}`" in text for file in files)
            if len(files) > 1 and not in_map and not FILE.findall(docstring_of(package)):
                silent.append(name)
    assert silent == [], "needs a docstring that says which file has what"


def test_the_checks_see_what_is_wrong(tmp_path):
    text = (
        "| to know or change | file |\n|---|---|\n"
        "| a | `spec/nowhere.py` |\n| b | `NoSuchName` in `spec/config.py` |\n"
        "| c | `preset` in `spec/config.py` |\n| d | in words |\n| e | `sw/cli/` |\n"
    )
    assert list(wrong_in(text)) == [
        "a: no file or folder/ spec/nowhere.py, from the root of the repository",
        "b: none of its files has `NoSuchName`",
        "d: names no file",
    ]
