"""MkDocs hooks: pages from outside docs/, the list of decision records, and a check.

Two files of the repository's root are pages of the site as well. Their links lead from the root
(`docs/isa.md`, `LICENSE`); in the site the pages lie beside the others. What the site does not
have, such as sources, stays text. A page that would load anything from another host is an error.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)")
LOADED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["']https?:[^>]*>""")


def page(text: str) -> str:
    """`text` with its links as they are from docs/."""

    def link(found: re.Match[str]) -> str:
        title, target = found.groups()
        inside = target.removeprefix("docs/")
        return f"[{title}]({inside})" if inside != target else title

    return LINK.sub(link, text)


def on_config(config: Any) -> Any:
    """Every decision record appears below their index in the navigation."""
    records = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    for section in config.nav:
        for entry in section.get("Explanation", ()):
            if "Decisions" in entry:
                entry["Decisions"] = [entry["Decisions"], *(f"decisions/{r.name}" for r in records)]
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages before MkDocs looks at its navigation."""
    for name, source in PAGES.items():
        content = page((ROOT / source).read_text())
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Links to those two files, which are right in the repository, lead to their pages."""
    for name, source in PAGES.items():
        markdown = markdown.replace(f"](../{source})", f"]({name})")
    return markdown


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """`PluginError` if a browser would load something from elsewhere to show the page."""
    for found in LOADED.finditer(output):
        if 'rel="canonical"' not in found[0]:
            raise PluginError(f"{page.file.src_uri}: loads from another host: {found[0]}")
    return output
