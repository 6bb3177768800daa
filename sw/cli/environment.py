"""Commands about what is there: `config`, `cache`, `doctor`."""

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from sw.cli.options import Configuration, SetOption
from sw.cli.output import console

if TYPE_CHECKING:
    from sw.runtime.tables import FittedTable

_SHOWN = ("rows", "cols", "spad_kib", "acc_kib", "bus_bytes", "banks", "outstanding")
_DERIVED = ("pes", "word_bytes", "bank_depth", "acc_vectors", "param_entry_bytes", "digest_hex")


def config_list() -> None:
    """Every preset with its sizes and digest."""
    console().print(preset_table())


def preset_table() -> "FittedTable":
    """A row a preset."""
    from spec.config import PRESETS
    from sw.runtime.tables import FittedTable, left, right

    sizes = [right(name, rank) for rank, name in enumerate(_SHOWN)]
    table = FittedTable([left("preset"), *sizes, left("digest")])
    for name, npu in PRESETS.items():
        table.add_row(name, *(str(getattr(npu, f)) for f in _SHOWN), npu.digest_hex)
    return table


def config_show(
    name: Annotated[str, typer.Argument(help="preset")], settings: SetOption = None
) -> None:
    """Every field of a preset, and what follows from them."""
    from rich.table import Table

    npu = Configuration(config=name, settings=settings).npu()
    table = Table("field", "value")
    for field in dataclasses.fields(npu):
        table.add_row(field.name, str(getattr(npu, field.name)))
    table.add_section()
    for derived in _DERIVED:
        table.add_row(derived, str(getattr(npu, derived)))
    console().print(table)


def cache_show() -> None:
    """Where the cache lies and how large it is."""
    from sw.runtime.simulator.cache import BuildCache

    cache = BuildCache()
    typer.echo(f"{cache.root}: {cache.size() / 1e9:.2f} of {cache.limit / 1e9:g} GB")
    for kind, (count, size) in cache.kinds().items():
        typer.echo(f"  {count} {kind}: {size / 1e6:.1f} MB")


def cache_clear() -> None:
    """Remove every build that is not in use."""
    from sw.runtime.simulator.cache import BuildCache

    cache = BuildCache(limit=0)
    typer.echo(f"{cache.root}: {len(cache.evict())} builds removed")


def doctor() -> None:
    """Check the environment; every failed line says how to mend it."""
    from sw.cli.doctor import run_all

    results = run_all()
    for result in results:
        typer.echo(f"{'ok  ' if result.ok else 'FAIL'}  {result.name}: {result.found}")
        if not result.ok:
            typer.echo(f"      mend: {result.mend}")
    failed = sum(not r.ok for r in results)
    typer.echo(f"{len(results)} checks, {failed} failed")
    if failed:
        raise typer.Exit(1)
