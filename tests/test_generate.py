"""`systola generate`: a prompt and its continuation, with keys and values from run to run."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GPT2Config

from spec.config import preset
from sw.cli.main import main
from sw.compiler.errors import CompileError
from sw.compiler.frontend.importing import import_model
from sw.compiler.pipeline import run_stages
from sw.measure.generate import Generation, failed, stream_bytes
from sw.models import gpt2
from sw.models.gpt2 import Prefill, build_generator, state_mask
from sw.runtime.session import DeviceOptions


@pytest.fixture(scope="module")
def generation() -> Generation:
    run = Generation("gpt2_tiny", 6, 4)
    list(run.run(preset("tiny"), DeviceOptions(device="golden"), lambda _: None))
    return run


def test_the_continuation_is_the_float_networks(generation: Generation) -> None:
    facts = generation.to_json(preset("tiny"), DeviceOptions(device="golden"))
    assert [row["run"] for row in facts["steps"]] == ["prefill"] + 4 * ["decode"]
    assert facts["tokens"] == facts["float_tokens"] and len(set(facts["tokens"])) >= 4
    assert min(row["pcc"] for row in facts["steps"]) >= 0.99
    assert all(row["bit_exact"] is None and row["cycles"] is None for row in facts["steps"])
    assert all(row["predicted_cycles"] > 0 for row in facts["steps"])


def test_state_holds_what_the_prompt_would_give_at_once(generation: Generation) -> None:
    """Keys and values of one token a run are those of all tokens at once, up to their integers."""
    made = generation.made
    ids = torch.cat([made.prompt, torch.tensor([[r["token"] for r in generation.steps[:-1]]])], 1)
    with torch.no_grad():
        exact = Prefill(made.model)(ids)[1:]
    for port, cache, want in zip(made.decode.inputs[3:], generation.caches, exact, strict=True):
        got = cache[:, :, : ids.shape[1]] * port.scale
        assert np.corrcoef(got.ravel(), want.numpy().ravel())[0, 1] >= 0.999
        assert not cache[:, :, ids.shape[1] :].any()


def test_programs_come_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYSTOLA_CACHE", str(tmp_path))
    first = build_generator("gpt2_tiny", 3, 2)
    monkeypatch.delattr(gpt2, "import_model")
    again = build_generator("gpt2_tiny", 3, 2)
    assert torch.equal(first.prompt, again.prompt)
    for a, b in ((first.prefill, again.prefill), (first.decode, again.decode)):
        assert (a.inputs, a.outputs) == (b.inputs, b.outputs)
    with pytest.raises(NameError):
        build_generator("gpt2_tiny", 3, 3)


def test_both_programs_hold_the_state_in_the_same_integers() -> None:
    made = build_generator("gpt2_tiny", 4, 2)
    ports = made.decode.inputs[3:]
    assert {p.dtype for p in ports} == {"int8"}
    for program in (made.prefill, made.decode):
        rows = program.outputs[1:]
        assert [(p.dtype, p.scale, p.zero_point) for p in rows] == [
            (p.dtype, p.scale, p.zero_point) for p in ports
        ]
    assert program.outputs[0].dtype == "int16"


def test_a_step_of_gpt2s_size_is_bound_by_the_bus() -> None:
    """One layer of GPT-2 and a small output layer behind 16 tokens, as the cost model has it."""
    torch.manual_seed(0)
    module, make = gpt2.decoder(GPT2Config(n_layer=1, vocab_size=2000))
    imported = import_model(module.eval(), make(), policy="wide")
    moved = stream_bytes(imported)
    assert moved == {"weights": 12 * 768**2 + 768 * 2000, "state": 2 * 16 * 768}
    config = preset("default")
    bound = sum(moved.values()) / config.bus_bytes
    cycles = sum(run_stages(imported.graph, config).predicted)
    assert bound < cycles <= bound / 0.9


def test_the_mask_hides_what_is_not_there_yet() -> None:
    assert state_mask(4, 2).tolist() == [[[[0, 0, -100, -100, 0]]]]


def test_formats_of_more_outputs_than_there_are_are_refused() -> None:
    module = torch.nn.Linear(4, 4).eval()
    with pytest.raises(CompileError, match="formats of 2 outputs, not of 1"):
        import_model(module, (torch.randn(2, 4),), outputs=[None, 0], policy="wide")


def test_an_output_in_the_format_of_an_input() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4)).eval()
    imported = import_model(module, (torch.randn(2, 4),), outputs=[0], policy="wide")
    assert imported.outputs[0].scale == imported.inputs[0].scale


def test_the_command_reports_every_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "g.json"
    arguments = ["generate", "gpt2_tiny", "--prompt", "3", "-n", "2", "-c", "small"]
    with pytest.raises(SystemExit) as done:
        main([*arguments, "--json", str(out)])
    assert not done.value.code
    said = capsys.readouterr().out
    assert "of 3 choices are the float network's behind the same tokens" in said
    assert "DONE on golden alone" in said
    facts = json.loads(out.read_text())
    assert len(facts["steps"]) == len(facts["tokens"]) == len(facts["float_tokens"]) == 3
    # 12 n² of each of 2 layers and the output layer, and the rows of 2·2 caches of 5 tokens.
    assert facts["bytes"] == {"weights": 24 * 32**2 + 32 * 100, "state": 4 * 32 * 5}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "model 'nope': no such generator; generators are gpt2, gpt2_tiny"),
        (["gpt2", "--prompt", "1000", "-n", "25"], "--prompt 1000 --tokens 25: gpt2 has 1024 pos"),
    ],
)
def test_bad_requests_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as done:
        main(["generate", *arguments])
    assert done.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.rtl
@pytest.mark.timeout(900)
def test_every_run_on_the_rtl_is_the_golden_models() -> None:
    run = Generation("gpt2_tiny", 5, 2)
    rows = list(run.run(preset("tiny"), DeviceOptions(device="rtl"), lambda _: None))
    assert [row["bit_exact"] for row in rows] == [True] * 3 and not failed(rows)
    # Logits, and keys and values of 2 layers.
    assert [row["elements"] for row in rows] == [100 + 4 * 32 * n for n in (5, 1, 1)]
    assert all(0 < row["share_of_bound"] < 1 for row in rows[1:])
