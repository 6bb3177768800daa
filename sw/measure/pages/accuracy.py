"""docs/accuracy.md from measured rows: transformers in integers beside their float networks.

Reads what `systola accuracy --json` wrote (a list) and `systola generate --json` (an object).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sw.measure.pages.markdown import document, heading, prose, table
from sw.runtime.report import ReportError, read_json

Row = Mapping[str, Any]

_INTRO = """
This page compares networks in integers with the same networks in float32, on inputs that did not
calibrate them. *PCC between* is the PCC of one sample's float output with the next sample's: what a
wrong result would score. [Transformers](transformers.md) says how values become integers.
"""
_STEPS = """
*Margin* is the difference between the float network's largest logit and the next one; where it is
small, rounding decides. *Share* is the part of the measured cycles that weights, keys and values
need at the width of the bus.
"""


def render(files: Sequence[Path]) -> str:
    """The page of the records in `files`; `ReportError` names a file that it cannot use."""
    rows: list[Row] = []
    runs: list[Row] = []
    for path in files:
        found = _read(path)
        if isinstance(found, list):
            rows += found
        else:
            runs.append(found)
    return page(rows, runs)


def _read(path: Path) -> Any:
    found = read_json(path)
    rows = found if isinstance(found, list) else [found]
    key = "pcc_least" if isinstance(found, list) else "float_tokens"
    if not rows or not all(isinstance(row, dict) and key in row for row in rows):
        raise ReportError(f"{path}: neither rows of systola accuracy nor a run of systola generate")
    return found


def page(rows: Sequence[Row], runs: Sequence[Row]) -> str:
    """The whole page; `ReportError` for a row whose device disagreed."""
    for row in rows:
        if False in (row.get("device_exact"), row.get("bit_exact")):
            raise ReportError(f"{row['model']}: the device did not compute the integers")
    blocks = [heading(1, "Accuracy"), prose(_INTRO), _models(rows) if rows else ""]
    for row in rows:
        if "embedding_cosine" in row:
            blocks += _embeddings(row)
    for run in runs:
        blocks += _generation(run)
    return document("systola pages accuracy", "docs/data/", *blocks)


def _models(rows: Sequence[Row]) -> str:
    head = (
        *("model", "weights", "samples", "PCC of the first output", "least PCC", "PCC between"),
        *("operators", "device"),
    )
    cells = [
        (
            row["model"],
            row["weights"],
            row["samples"],
            f"{row['pcc'][0]:.5f}",
            f"{row['pcc_least']:.5f}",
            f"{row['pcc_between'][0]:.3f}" if row["pcc_between"] else "one sample",
            row["operators"],
            _device(row),
        )
        for row in rows
    ]
    return table(head, cells, "llrrrrrl")


def _device(row: Row) -> str:
    if row.get("bit_exact"):
        return (
            f"golden: every sample; RTL `{row['config']}`: one, {row['elements']:,} elements "
            f"bit-exact, {row['cycles']:,} cycles"
        )
    if not row.get("device_exact"):
        return "interpreter"
    # Rows that do not name the device are of a release that ran the first sample on it only.
    return f"golden: {'every' if 'device' in row else 'one'} sample bit-exact"


def _embeddings(row: Row) -> Iterator[str]:
    text = (
        f"Weights of `{row['weights']}`. Cosine between the float32 network's embedding of a "
        f"sentence and the integers': {row['embedding_cosine']:.5f} on average over "
        f"{row['samples']} sentences, at least {row['embedding_least']:.5f}."
    )
    between = row["embedding_between"]
    if between:
        text += f" Between a sentence and the next it is at most {max(between):.3f}."
    yield heading(2, f"Embeddings of {row['model']}")
    yield prose(text)
    cells = [(name, f"{mean:.5f}", f"{least:.5f}") for name, (mean, least) in row["styles"].items()]
    yield table(("style", "mean", "least"), cells, "lr")


def _generation(run: Row) -> Iterator[str]:
    steps = run["steps"]
    wrong = [i for i, step in enumerate(steps) if step["bit_exact"] is False]
    if wrong:
        raise ReportError(f"{run['name']}: run {wrong[0]} differs from the golden model")
    same = sum(step["token"] == step["float_token"] for step in steps)
    pairs = enumerate(zip(run["tokens"], run["float_tokens"], strict=True), 1)
    parted = next((i for i, (ours, floats) in pairs if ours != floats), None)
    yield heading(
        2, f"{run['name']}: a prompt of {run['prompt']} tokens and {len(steps) - 1} more runs"
    )
    yield prose(
        f"Measured on {run['device']}, `{run['config']}`; weights are random. {same} of "
        f"{len(steps)} choices are the float network's behind the same tokens; left to themselves "
        f"the two continuations {'are equal' if parted is None else f'part at token {parted}'}. "
        f"The first run gives the logits of the prompt's last token, each other one attends to "
        f"{run['prompt'] + len(steps) - 1} positions; the [benchmarks](benchmarks.md) have other "
        "programs, see [transformers](transformers.md#which-gpt-2-program). " + _STEPS
    )
    head = (
        *("run", "token", "float", "margin", "PCC of the logits", "cycles", "share"),
        "RTL = golden",
    )
    yield table(head, [_step(number, step) for number, step in enumerate(steps)], "lrrrrrrl")


def _step(number: int, step: Row) -> list[object]:
    return [
        number or step["run"],
        step["token"],
        step["float_token"],
        f"{step['float_margin']:.3f}",
        f"{step['pcc']:.5f}",
        "" if step["cycles"] is None else f"{step['cycles']:,}",
        f"{step['share_of_bound']:.1%}" if "share_of_bound" in step else "",
        f"{step['elements']:,} elements" if step["bit_exact"] else "golden alone",
    ]
