"""Every stage's text of small graphs, the front end's graphs, and digests of whole networks.

A change of structure must leave these files as they are; a change of behaviour shows as their diff.
"""

import hashlib
import io
import re

import pytest
from golden_graphs import GRAPHS
from golden_networks import with_plain_numbers
from golden_text import FOLDER, compare

from spec import preset
from sw.compiler import compile_graph
from sw.compiler.pipeline import run_stages, stage_names
from sw.compiler.tosa.digest import graph_digest
from sw.models.build import build_network
from sw.models.catalog import get_model
from sw.models.table import NETWORKS

_DIGESTS = re.compile(r"(isa_digest|config_digest)=\w+")
"""Of the BEGIN instruction: they change with the instruction set, the program does not."""

CNNS = tuple(name for name in NETWORKS if name != "digits")
"""Without the one that is trained on this machine: its weights are another processor's neither."""

TRANSFORMERS = ("bert_tiny", "llama", "bloom", "qwen")


@pytest.mark.parametrize("name", GRAPHS)
def test_every_stage_of_a_small_graph(name: str, request: pytest.FixtureRequest) -> None:
    text = io.StringIO()
    done = run_stages(GRAPHS[name](), preset("small"), name=name, dump_after=["all"], out=text)
    headings = [line[4:] for line in text.getvalue().splitlines() if line.startswith("=== ")]
    assert headings == stage_names()
    assert len(done.instructions) > 3
    compare(f"stages_{name}.txt", _DIGESTS.sub(r"\1=…", text.getvalue()), request)


def _digest(array: object) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()[:16]  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CNNS, *TRANSFORMERS])
def test_images_of_whole_networks(name: str, request: pytest.FixtureRequest) -> None:
    """`tosa` differs: the front end; the others alone: the compiler.

    The instruction that carries digests of the instruction set is left out.
    """
    # Digests need the graph alone, so that one sample with PyTorch's results is enough.
    if name in NETWORKS:
        imported = build_network(NETWORKS[name], samples=1).model.imported
    else:
        imported = get_model(name).imported()
    graph = with_plain_numbers(imported.graph)
    image = compile_graph(graph, preset("default"), name=name)
    first = len(image.instructions()[0].encode())
    lines = [
        f"tosa {graph_digest(graph)} {len(graph.ops)} operators",
        f"program {_digest(image.program[first:])} {image.program.size} bytes",
        f"constants {_digest(image.constants)} {image.constants.size} bytes",
        f"temporaries {image.temp_bytes} bytes",
        f"predicted {sum(layer['predicted_cycles'] for layer in image.info['layers'])} cycles",
    ]
    compare(f"network_{name}.txt", "\n".join(lines) + "\n", request)


def test_every_golden_file_has_a_test() -> None:
    known = {f"stages_{name}.txt" for name in GRAPHS}
    known |= {f"network_{name}.txt" for name in (*CNNS, *TRANSFORMERS)}
    known.add("compiler_matmul_6x9x10_tiny.txt")
    assert {path.name for path in FOLDER.glob("*.txt")} == known
