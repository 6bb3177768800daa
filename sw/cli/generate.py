"""The command `systola generate`."""

from typing import Annotated, Any

import typer

from sw.cli.options import CONFIGURATION, ON_GOLDEN, Configuration, JsonOption, Machine
from sw.cli.output import progress
from sw.models.transformer_table import GENERATORS

MOST = 1024
"""Positions of GPT-2."""


def generate(
    model: Annotated[str, typer.Argument(help=", ".join(GENERATORS))] = "gpt2",
    prompt: Annotated[int, typer.Option("--prompt", min=1, help="tokens to begin with")] = 32,
    tokens: Annotated[
        int, typer.Option("--tokens", "-n", min=1, help="runs of one token that follow")
    ] = 16,
    machine: Machine = ON_GOLDEN,
    hardware: Configuration = CONFIGURATION,
    json_file: JsonOption = None,
) -> None:
    """Continue a prompt greedily with keys and values cached; compare with floats and golden.

    One run reads the prompt and gives the first token, `--tokens` more runs give one each.
    """
    from spec.names import did_you_mean
    from sw.results.revision import commit, source_digest
    from sw.runtime.report import write_json
    from sw.runtime.session import OptionError

    if model not in GENERATORS:
        raise OptionError(
            f"model {model!r}: no such generator{did_you_mean(model, GENERATORS)}; "
            f"generators are {', '.join(GENERATORS)}"
        )
    most = GENERATORS[model].get("n_positions", MOST)
    if prompt + tokens > most:
        raise OptionError(f"--prompt {prompt} --tokens {tokens}: {model} has {most} positions")
    npu = hardware.npu()
    options = machine.options()
    from sw.measure.generate import Generation, failed

    with progress() as say:
        run = Generation(model, prompt, tokens, say)
        for row in run.run(npu, options, say):
            say(_line(len(run.steps) - 1, row))
            if json_file is not None:  # after each: on the RTL it takes minutes
                facts = run.to_json(npu, options)
                write_json({**facts, "sources": source_digest(), "commit": commit()}, json_file)
    facts = run.to_json(npu, options)
    typer.echo(_summary(facts))
    if failed(run.steps):
        raise typer.Exit(1)


def _line(number: int, row: dict[str, Any]) -> str:
    parts = [
        f"{number:3}  {row['run']:7}  token {row['token']:5}",
        "as float" if row["token"] == row["float_token"] else f"float {row['float_token']}",
        f"PCC {row['pcc']:.5f}",
    ]
    if row["cycles"] is not None:
        parts.append(f"{row['cycles']:,} cycles")
    elif row["predicted_cycles"] is not None:
        parts.append(f"{row['predicted_cycles']:,} cycles predicted")
    if "share_of_bound" in row:
        parts.append(f"{row['share_of_bound']:.1%} of the bus's bound")
    if row["bit_exact"] is not None:
        parts.append("bit_exact" if row["bit_exact"] else f"DIFFERS: {row['difference']}")
    return "  ".join([*parts, f"({row['wall_s']:.0f} s)"])


def _summary(facts: dict[str, Any]) -> str:
    ours, floats = facts["tokens"], facts["float_tokens"]
    rows = facts["steps"]
    same = sum(row["token"] == row["float_token"] for row in rows)
    common = next((i for i, (a, b) in enumerate(zip(ours, floats, strict=True)) if a != b), None)
    lines = [
        f"tokens        {' '.join(map(str, ours))}",
        f"float network {' '.join(map(str, floats))}",
        f"{same} of {len(rows)} choices are the float network's behind the same tokens; "
        + ("the continuations are equal" if common is None else f"they part at token {common + 1}")
        + f"; PCC of the logits at least {min(row['pcc'] for row in rows):.5f}",
    ]
    exact = [row["bit_exact"] for row in rows if row["bit_exact"] is not None]
    if exact:
        verdict = "PASS" if all(exact) else "FAIL"
        lines.append(
            f"{verdict}  RTL = golden model: {sum(exact)} of {len(exact)} runs, all outputs"
        )
    else:
        lines.append("DONE on golden alone: --device rtl compares the hardware with it")
    return "\n".join(lines)
