"""`systola pages`: write the generated pages of docs/."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sw.measure.pages.registry import Page


def all_pages() -> "dict[str, Page]":
    """The generated pages by name: those of measurements and sources, and those of this package."""
    from sw.measure.pages.registry import PAGES, Page

    ours = (
        Page(name="commands", renderer="sw.cli.reference:commands_page"),
        Page(name="python", renderer="sw.cli.reference:python_page"),
    )
    return {**PAGES, **{page.name: page for page in ours}}


def find_page(name: str) -> "Page":
    """The page `name`; `PageError` lists them."""
    from spec.names import did_you_mean
    from sw.measure.pages.registry import PageError

    known = all_pages()
    if name not in known:
        raise PageError(
            f"page {name!r}: no such page{did_you_mean(name, known)}; pages are {', '.join(known)}"
        )
    return known[name]


def pages(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[PAGE]…", help="default: all of them")
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", help="records of one PAGE instead of those in docs/data/"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="file of one PAGE (docs/PAGE.md), - prints it"),
    ] = None,
) -> None:
    """Write the generated pages of docs/ from the sources and the records in docs/data/."""
    from sw.runtime.report import write_text
    from sw.runtime.session import OptionError

    chosen = [find_page(name) for name in names or all_pages()]
    if (data or out is not None) and len(chosen) != 1:
        raise OptionError("--data and --out go with one PAGE")
    for page in chosen:
        if data and not page.data:
            raise OptionError(f"--data: page {page.name} is made of the sources; leave it out")
        path = out or page.path
        write_text(page.render(data or ()), None if str(path) == "-" else path)
        if str(path) != "-":
            typer.echo(f"{path}: written")
