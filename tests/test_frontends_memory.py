"""Memory that a model with large weights takes, measured in a process of its own.

`python tests/test_frontends_memory.py FOLDER 1024` measures a model of so many MiB, on `large`.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

MOST = 2.5
"""Times the weights' bytes, from a file to a program image."""

MEASURE = """
import resource, sys
import torch, systola
from sw.frontends.onnx import load_onnx
from onnx_models import array, model

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

small = load_onnx(model([("Gemm", ["x", "w"], ["y"])], arrays=[array("w", [[1.0] * 8] * 8)],
                        inputs=[onnx_models.value("x", (1, 8))]))
systola.compile(small.module, small.example, systola.preset("large"))
before = peak()
loaded = load_onnx(sys.argv[1])
at_load = peak()
systola.compile(loaded.module, loaded.example, systola.preset("large"))
print(at_load - before, peak() - before)
""".replace("import torch,", "import onnx_models, torch,")


def write_gemms(folder: Path, count: int, side: int) -> int:
    """A stack of Gemms with random weights, whose data are beside it; the weights' bytes."""
    rng, nodes, initializers, last = np.random.default_rng(0), [], [], "x"
    with (folder / "weights.bin").open("wb") as file:
        for i in range(count):
            weight = rng.standard_normal((side, side), np.float32) / np.float32(side**0.5)
            tensor = TensorProto(
                name=f"w{i}", data_type=1, dims=weight.shape, data_location=TensorProto.EXTERNAL
            )
            places = {"location": "weights.bin", "offset": file.tell(), "length": weight.nbytes}
            for key, place in places.items():
                tensor.external_data.add(key=key, value=str(place))
            file.write(weight.tobytes())
            initializers.append(tensor)
            nodes.append(helper.make_node("Gemm", [last, f"w{i}"], [f"g{i}"]))
            nodes.append(helper.make_node("Relu", [f"g{i}"], [f"h{i}"]))
            last = f"h{i}"
        size = file.tell()
    ports = [helper.make_tensor_value_info(name, 1, [1, side]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "gemms", ports[:1], ports[1:], initializers)
    versions = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=versions, ir_version=9), folder / "net.onnx")
    return size


def measured(folder: Path, count: int, side: int) -> tuple[float, float]:
    """(peak while loading, peak until compiled), times the weights."""
    size = write_gemms(folder, count, side)
    root = Path(__file__).resolve().parent.parent
    paths = f"{root}{os.pathsep}{root / 'tests'}"
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder / "net.onnx")],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    load, compiled = map(int, done.stdout.split())
    return load / size, compiled / size


def test_weights_beside_the_model_are_not_copied_over_and_over(tmp_path):
    load, compiled = measured(tmp_path, 8, 2048)
    assert load < 1.6
    assert compiled < MOST


if __name__ == "__main__":
    where = Path(sys.argv[1])
    where.mkdir(parents=True, exist_ok=True)
    mebibytes = int(sys.argv[2])
    load, compiled = measured(where, max(1, mebibytes // 64), 4096)
    print(f"peak of loading and until compiled, times the weights: {load:.2f}, {compiled:.2f}")
