"""Hand-written pages: lines of at most 100 columns, links that lead somewhere, files that exist."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 100
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|sv|cpp|h|yaml|vlt|core))(?:::[^`]*)?`")
COMMAND = re.compile(
    r"(?:`|^(?: {4}|\$ )?)systola ((?:config |cache |fpga |results )?[a-z]+)([^`\n#]*)", re.M
)
IMPORT = re.compile(r"^from ((?:sw|spec|systola|golden_model|hw_gen)[\w.]*) import (\w+)", re.M)
EXAMPLES = {"my_model.py", "model.py", "net.tosa", "mine.yaml", "file.yaml", "points.core"}
"""Names of files that a reader has or makes."""


FORMULAS = {
    "MATRIX": "R C W[r][c] y x v[r] p[c] a acc[a][c]",
    "DEPTHWISE": "w[k][t][c] y x v(k,q)[c] p[j][c] a acc[a][c]",
    "VECTOR": "inside a b a a a a b v v v v v v v v write",
}
"""What the contract's formulas define, in their order."""


def tracked():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


TRACKED = tracked()
PAGES = [
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *(name for name in TRACKED if name.startswith("docs/") and name.endswith(".md")),
]


def prose(text):
    """The numbered lines that are neither code nor a table nor a comment."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*(```|~~~)", line):
            code = not code
        elif not code and not line.startswith(("|", "    ", "<!--")):
            yield number, line


def slug(heading):
    """The anchor that Markdown gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip())


def anchors(text):
    return {slug(line.lstrip("#")) for _, line in prose(text) if line.startswith("#")}


@pytest.mark.parametrize("name", PAGES)
def test_lines_fit(name):
    text = (ROOT / name).read_text()
    long = [f"{name}:{n}: {len(t)} columns" for n, t in prose(text) if len(t) > COLUMNS]
    assert long == []


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_pages_and_headings(name):
    text = (ROOT / name).read_text()
    wrong = []
    for target in LINK.findall(text):
        if re.match(r"https?://|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        found = ((ROOT / name).parent / path).resolve() if path else ROOT / name
        if not found.exists():
            wrong.append(f"{target}: no such file")
        elif anchor and found.suffix == ".md" and anchor not in anchors(found.read_text()):
            wrong.append(f"{target}: no such heading")
    assert wrong == []


@pytest.mark.parametrize("name", PAGES)
def test_files_that_are_named_exist(name):
    text = (ROOT / name).read_text()
    wrong = [
        file
        for file in dict.fromkeys(NAMED.findall(text))
        if file not in EXAMPLES
        and not any(known == file or known.endswith(f"/{file}") for known in TRACKED)
    ]
    assert wrong == [], "no such file in the tree"


def test_every_decision_record_is_in_the_index_with_its_status():
    folder = ROOT / "docs" / "decisions"
    index = (folder / "index.md").read_text()
    for record in sorted(folder.glob("[0-9]*.md")):
        text = record.read_text()
        title = text.splitlines()[0].removeprefix("# ").partition(". ")[2]
        status = re.search(r"^\*\*Status:\*\* (.*?)\.$", text, re.M | re.S)
        assert status, f"{record.name} has no line **Status:**"
        row = f"| [{title}]({record.name}) | {' '.join(status[1].split())} |"
        assert row in index, f"{record.name}: the index lacks {row}"


@pytest.mark.parametrize("opcode", FORMULAS)
def test_every_formula_of_the_contract_is_a_line_of_its_own(opcode):
    page = (ROOT / "docs" / "contract.md").read_text()
    section = page.split(f"\n## {opcode}\n")[1].split("\n## ")[0]
    begins = re.findall(r"^ {4}(\S+) (?=\s*= |v as)", section, re.M)
    assert begins == FORMULAS[opcode].split()


def status_of(record):
    return re.search(r"^\*\*Status:\*\* (.*?)\.$", record.read_text(), re.M | re.S)[1]


def test_statuses_of_decisions_name_each_other():
    """A record that another one extends or supersedes says so, and the other way round."""
    folder = ROOT / "docs" / "decisions"
    named = {r.name: set(LINK.findall(status_of(r))) for r in folder.glob("[0-9]*.md")}
    one_way = [
        f"{name} names {other}, which does not name it"
        for name, others in sorted(named.items())
        for other in sorted(others)
        if name not in named[other]
    ]
    assert one_way == []


def unknown_in(text, options):
    """Commands in `text` that do not exist, and options that they do not have."""
    for command, rest in COMMAND.findall(text):
        if command not in options:
            yield f"systola {command}"
            continue
        for option in re.findall(r"(?<!\S)(--?[a-z][\w-]*)", rest):
            if option not in options[command]:
                yield f"systola {command} {option}"


def options_of_commands():
    """By command, the options that the page of commands lists."""
    sections = (ROOT / "docs" / "commands.md").read_text().split("\n## systola ")[1:]
    split = (section.partition("\n") for section in sections)
    return {name: set(re.findall(r"`(--?[\w-]+)`", body)) for name, _, body in split}


@pytest.mark.parametrize("name", sorted(set(PAGES) - {"docs/commands.md"}))
def test_commands_that_are_named_exist_with_their_options(name):
    assert list(unknown_in((ROOT / name).read_text(), options_of_commands())) == []


@pytest.mark.parametrize("name", PAGES)
def test_imports_in_examples_exist(name):
    wrong = []
    for module, imported in IMPORT.findall((ROOT / name).read_text()):
        path = ROOT / module.replace(".", "/")
        file = next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()), "")
        if not file or not re.search(rf"\b{imported}\b", file.read_text()):
            wrong.append(f"from {module} import {imported}")
    assert wrong == []


def test_the_checks_see_what_is_wrong():
    assert [n for n, _ in prose("a\n```\nb\n```\n| c |\n    d\ne")] == [1, 7]
    assert slug("Which GPT-2 program") == "which-gpt-2-program"
    known = {"run": {"--input"}, "cache show": set()}
    text = "`systola models` and `systola cache show`\n    systola run m --input x --speed 2\n"
    assert list(unknown_in(text, known)) == ["systola models", "systola run --speed"]
    assert NAMED.findall("`sw/x.py` and `tests/a.py::test_b` and `c.sv`, not `d.txt`") == [
        *("sw/x.py", "tests/a.py", "c.sv"),
    ]
