"""The generated pages of docs/: from which measured records each is made, and by which function."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from spec.errors import SystolaError
from sw.results.revision import ROOT

DOCS = ROOT / "docs"


class PageError(SystolaError, ValueError):
    """A page that cannot be written: its name is unknown, or its records are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of docs/.

    renderer: `module:function` that returns the text, given the files of records. It is imported
    when the page is written: some need PyTorch. data: patterns of those files in docs/data/, in the
    order of the page; none for a page that is made of the sources.
    """

    name: str
    renderer: str
    data: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Where the page lies in the source tree."""
        return DOCS / f"{self.name}.md"

    def files(self) -> list[Path]:
        """The records in docs/data/."""
        return [file for name in self.data for file in sorted((DOCS / "data").glob(name))]

    def render(self, files: Sequence[Path] = ()) -> str:
        """The text, of the records in `files` instead of those in docs/data/ if there are any."""
        files = files or self.files()
        if self.data and not files:
            raise PageError(f"page {self.name}: no records ({' '.join(self.data)}) in docs/data/")
        module, _, function = self.renderer.partition(":")
        render: Callable[..., str] = getattr(import_module(module), function)
        if not self.data:
            return render()
        try:
            return render(files)
        except SystolaError:
            raise
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            names = ", ".join(map(str, files))
            raise PageError(
                f"page {self.name}: no records of this release in {names}: {error!r}"
            ) from error


PAGES: dict[str, Page] = {
    page.name: page
    for page in (
        Page(
            name="accuracy",
            renderer="sw.measure.pages.accuracy:render",
            data=("accuracy-*.json", "generate-*.json"),
        ),
        Page(
            name="benchmarks",
            renderer="sw.measure.pages.bench:render",
            data=("benchmarks-*.json",),
        ),
        Page(
            name="calibration",
            renderer="sw.measure.pages.calibration:render",
            data=("calibration.json",),
        ),
        Page(
            name="conformance",
            renderer="sw.measure.pages.conformance:render",
            data=(
                *("conformance-golden.json", "conformance-rtl.json"),
                *("conformance-random.json", "conformance-negative.json"),
            ),
        ),
        Page(name="configuration", renderer="sw.measure.pages.configuration:render"),
        Page(name="doors", renderer="sw.measure.pages.doors:render", data=("doors.json",)),
        Page(
            name="energy",
            renderer="sw.measure.pages.energy:render",
            data=("energy-*.json",),
        ),
        Page(name="isa", renderer="sw.measure.pages.reference:isa_page"),
        Page(
            name="modules",
            renderer="sw.measure.pages.modules:render",
            data=("modules.json",),
        ),
        Page(name="operators", renderer="sw.measure.pages.operators:operators_page"),
        Page(name="registers", renderer="sw.measure.pages.reference:registers_page"),
        Page(
            name="sensitivity",
            renderer="sw.measure.pages.sensitivity:render",
            data=("sensitivity-*.json",),
        ),
        Page(
            name="silicon",
            renderer="sw.measure.pages.silicon:render",
            data=("silicon-generic.json", "silicon-ihp130*.json", "silicon-ecp5.json"),
        ),
        Page(
            name="validation",
            renderer="sw.measure.pages.validation:render",
            data=("validation.json",),
        ),
    )
}
