"""The pipeline is checked when it is built: what stages need, make and show."""

import io

import pytest

from sw.compiler.pipeline import PIPELINE, STAGES, stage_names
from sw.compiler.stages import Pipeline, PipelineError, Stage


def show(total: int) -> str:
    return str(total)


ADD = Stage(name="add", makes=("total",), run=lambda a, b: a + b, dump=show)
SPLIT = Stage(
    name="split",
    makes=("half", "rest"),
    run=lambda total: (total // 2, total % 2),
    dump=lambda half, rest: f"{half} and {rest}",
)
ALL = ("a", "b", "total", "half", "rest")


def test_stages_pass_values_by_name_and_dump_what_is_asked_for() -> None:
    pipeline = Pipeline([ADD, SPLIT], given=["a", "b"], results=ALL)
    out = io.StringIO()
    values = pipeline.run({"a": 3, "b": 4}, dump=["split"], out=out)
    assert values == {"a": 3, "b": 4, "total": 7, "half": 3, "rest": 1}
    assert out.getvalue() == "=== split\n3 and 1\n"


def test_a_stage_that_needs_what_nobody_has_made_is_refused() -> None:
    with pytest.raises(
        PipelineError,
        match="stage split needs 'total', which no stage before it makes; there are a, b",
    ):
        Pipeline([SPLIT, ADD], given=["a", "b"], results=[])


def test_a_dump_of_what_nobody_has_made_is_refused() -> None:
    stage = Stage(name="bare", dump=show)
    with pytest.raises(PipelineError, match="stage bare needs 'total'"):
        Pipeline([stage], given=["a"], results=["a"])


def test_a_value_is_made_once() -> None:
    with pytest.raises(PipelineError, match="stage add makes 'total', which there is already"):
        Pipeline([ADD, ADD], given=["a", "b"], results=["a", "b", "total"])


def test_results_are_what_is_given_and_made() -> None:
    with pytest.raises(PipelineError, match="a result that no stage makes: image, total"):
        Pipeline([ADD], given=["a", "b"], results=["a", "b", "image"])


def test_a_check_stops_the_run_before_the_next_stage() -> None:
    def refuse(total: int) -> None:
        raise ValueError(f"{total} is too much")

    checked = Stage(name="add", makes=("total",), run=lambda a, b: a + b, check=refuse, dump=show)
    pipeline = Pipeline([checked, SPLIT], given=["a", "b"], results=ALL)
    with pytest.raises(ValueError, match="7 is too much"):
        pipeline.run({"a": 3, "b": 4})


def test_the_compiler_is_such_a_pipeline() -> None:
    assert PIPELINE.names() == stage_names() == [stage.name for stage in STAGES]
    tiling = next(stage for stage in STAGES if stage.name == "tiling")
    given = ("config", "options", "graph", "families", "planner")
    assert tiling.needs == ("layers", "residency", *given) and tiling.makes == ("plans",)
