"""Whole files as ONNX Runtime's quantizers and optimizers write them, on the NPU."""

import warnings

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto as Types
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

import systola
from sw.frontends.onnx import load_onnx

RNG = np.random.default_rng(7)


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


class Network(torch.nn.Module):
    """A convolution, a norm, products, a sum, activations."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 16)
        self.norm, self.last = torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)

    def forward(self, x):
        y = torch.relu(self.conv(x)).mean((2, 3))
        y = torch.sigmoid(self.first(y))
        return self.last(self.norm(y + self.second(y)))


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("microsoft") / "float.onnx"
    call = (torch.randn(2, 3, 8, 8),)
    torch.onnx.export(
        Network().eval(), call, path, dynamo=False, opset_version=17, input_names=["x"]
    )
    return path


class Images(CalibrationDataReader):
    def __init__(self):
        self._rows = iter([{"x": floats(2, 3, 8, 8)} for _ in range(8)])

    def get_next(self):
        return next(self._rows, None)


def optimized(path):
    """The file as ONNX Runtime's optimizer saves it."""
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(path.with_name(f"{path.stem}-optimized.onnx"))
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    ort.InferenceSession(str(path), options)
    return path.with_name(f"{path.stem}-optimized.onnx")


def dynamic(path, **options):
    made = path.with_name(f"dynamic{len(options)}.onnx")
    # Weights of 7 bits: without VNNI, ONNX Runtime adds two products in 16 bits.
    quantize_dynamic(path, made, reduce_range=True, **options)
    return made


def operators(path):
    quantize_static(
        path, path.with_name("operators.onnx"), Images(),
        quant_format=QuantFormat.QOperator, per_channel=True,
    )  # fmt: skip
    return path.with_name("operators.onnx")


FILES = {
    "optimized": (optimized, "FusedConv", "wide"),
    "dynamic": (dynamic, "DynamicQuantizeLinear", "wide"),
    "dynamic, uint8 by channel": (
        lambda p: dynamic(p, weight_type=QuantType.QUInt8, per_channel=True),
        "MatMulInteger", "wide",
    ),
    "dynamic, optimized": (lambda p: optimized(dynamic(p)), "DynamicQuantizeMatMul", "wide"),
    "operators": (operators, "QLinearAdd", "pt2e"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_a_file_as_onnx_runtime_writes_it_runs_on_the_npu(network, case):
    make, operator, policy = FILES[case]
    path = make(network)
    assert operator in {each.op_type for each in onnx.load(path).graph.node}
    loaded = load_onnx(path)
    images = [(torch.from_numpy(floats(2, 3, 8, 8)),) for _ in range(8)]
    program = systola.compile(
        loaded.module, loaded.example, systola.preset("tiny"), calibration=images
    )
    assert program.imported.policy == policy
    x = floats(2, 3, 8, 8)
    (found,) = program.outputs(systola.run(program.image, program.inputs(torch.from_numpy(x))))
    (exact,) = ort.InferenceSession(path).run(None, {"x": x})
    assert np.corrcoef(found.ravel(), exact.ravel())[0, 1] > 0.999
    assert np.abs(found - exact).max() < 0.03 * np.abs(exact).max()


def test_a_dynamic_product_keeps_the_weights_that_it_has(network):
    """As integers with their own scales; nothing of the run-time quantization is left."""
    loaded = load_onnx(dynamic(network))
    kinds = [getattr(loaded.module, name).node.op for name in loaded.module.order]
    assert kinds.count("DequantizeLinear") == 4
    assert not {"DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "Cast"} & set(kinds)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """(folder with bert.onnx, its feeds) of a small BERT as transformers exports it."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 64, "vocab_size": 50, "max_position_embeddings": 16}
    network = BertModel(BertConfig(**sizes, attn_implementation="eager")).eval()
    names = ["input_ids", "attention_mask", "token_type_ids"]

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, *call):
            return self.network(**dict(zip(names, call, strict=True))).last_hidden_state

    folder = tmp_path_factory.mktemp("bert")
    call = (torch.randint(0, 50, (1, 8)), torch.ones(1, 8).long(), torch.zeros(1, 8).long())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Hidden(), call, folder / "bert.onnx", dynamo=False, opset_version=14,
            input_names=names, output_names=["y"],
            dynamic_axes={name: {0: "batch", 1: "tokens"} for name in names},
        )  # fmt: skip
    return folder, dict(zip(names, call, strict=True))


def fused(path):
    """The file as ONNX Runtime's transformer optimizer saves it."""
    from onnxruntime.transformers import optimizer

    made = optimizer.optimize_model(
        str(path), model_type="bert", num_heads=2, hidden_size=32, opt_level=0
    )
    made.save_model_to_file(str(path.with_name("fused.onnx")))
    return path.with_name("fused.onnx")


BERTS = {
    "as exported": (lambda p: p, "Erf"),
    "dynamic": (dynamic, "MatMulInteger"),
    "fused": (fused, "Attention"),
    "fused, dynamic": (
        lambda p: dynamic(fused(p), extra_options={"DefaultTensorType": Types.FLOAT}),
        "QAttention",
    ),
}


@pytest.mark.parametrize("case", BERTS)
def test_an_encoder_as_onnx_runtime_writes_it_runs_on_the_npu(bert, case):
    make, operator = BERTS[case]
    folder, call = bert
    path = make(folder / "bert.onnx")
    assert operator in {each.op_type for each in onnx.load(path).graph.node}
    loaded = load_onnx(path, shapes=dict.fromkeys(call, (1, 8)))
    session = ort.InferenceSession(path)
    types = {"tensor(int32)": torch.int32, "tensor(int64)": torch.int64}
    feeds = {each.name: call[each.name].to(types[each.type]) for each in session.get_inputs()}
    exact = session.run(None, {name: tensor.numpy() for name, tensor in feeds.items()})[0]
    texts = [
        tuple(torch.randint(0, 50, t.shape).to(t.dtype) if n == "input_ids" else t
              for n, t in feeds.items())
        for _ in range(4)
    ]  # fmt: skip
    program = systola.compile(
        loaded.module, loaded.example, systola.preset("tiny"), calibration=texts
    )
    found = program.outputs(systola.run(program.image, program.inputs(*feeds.values())))[0]
    assert np.corrcoef(found.ravel(), exact.ravel())[0, 1] > 0.999
