"""Stages with declared inputs and outputs, and the pipeline that is made of them.

The parameters of a stage's function are the values that it needs, by name; what it returns are the
values that it makes. A pipeline is checked when it is built: a stage that needs what no stage
before it makes is an error at import, not in the middle of a compilation.
"""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TextIO


class PipelineError(ValueError):
    """A pipeline whose stages do not fit together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step of a compilation.

    `run` returns the value called `makes`, or a tuple of values where `makes` names several.
    `check` raises if what was made is illegal; `dump` is its text. Both take any values that are
    known by then.
    """

    name: str
    makes: tuple[str, ...] = ()
    run: Callable[..., Any] | None = None
    check: Callable[..., None] | None = None
    dump: Callable[..., str]

    @property
    def needs(self) -> tuple[str, ...]:
        """The values that `run` takes."""
        return () if self.run is None else _parameters(self.run)

    def shows(self) -> tuple[str, ...]:
        """The values that `check` and `dump` take."""
        functions = [f for f in (self.check, self.dump) if f is not None]
        return tuple(name for function in functions for name in _parameters(function))


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


class Pipeline:
    """Stages in order. `given`: values that are there before the first; `results`: all at the end.

    `PipelineError` if a stage takes a value that is not there, or makes one a second time.
    """

    def __init__(
        self, stages: Sequence[Stage], *, given: Collection[str], results: Collection[str]
    ) -> None:
        self.stages, self.given, self.results = tuple(stages), tuple(given), tuple(results)
        known = set(given)
        for stage in stages:
            _require(stage, stage.needs, known)
            for name in stage.makes:
                if name in known:
                    raise PipelineError(
                        f"stage {stage.name} makes {name!r}, which there is already"
                    )
            known |= set(stage.makes)
            _require(stage, stage.shows(), known)
        if known != set(results):
            odd = ", ".join(sorted(known ^ set(results)))
            raise PipelineError(f"no result, or a result that no stage makes: {odd}")

    def replaced(self, name: str, run: Callable[..., Any]) -> "Pipeline":
        """The same with another function for stage `name`."""
        stages = [replace(s, run=run) if s.name == name else s for s in self.stages]
        return Pipeline(stages, given=self.given, results=self.results)

    def names(self) -> list[str]:
        """Names of the stages, in order."""
        return [stage.name for stage in self.stages]

    def run(
        self, given: Mapping[str, Any], *, dump: Collection[str] = (), out: TextIO | None = None
    ) -> dict[str, Any]:
        """All values; text of the stages in `dump` goes to `out` (standard output)."""
        values = dict(given)

        def call(function: Callable[..., Any]) -> Any:
            return function(*(values[name] for name in _parameters(function)))

        for stage in self.stages:
            if stage.run is not None:
                made = call(stage.run)
                single = len(stage.makes) == 1
                values |= zip(stage.makes, (made,) if single else made, strict=True)
            if stage.check is not None:
                call(stage.check)
            if stage.name in dump:
                print(f"=== {stage.name}\n{call(stage.dump)}", file=out)
        return values


def _require(stage: Stage, names: Collection[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise PipelineError(
                f"stage {stage.name} needs {name!r}, which no stage before it makes; "
                f"there are {', '.join(sorted(known))}"
            )
