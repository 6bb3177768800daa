"""Encoders of `transformers` for text, random weights.

systola run examples/modules/transformers_encoders.py:distilbert
"""

import torch
import transformers
from torch import nn


class _Hidden(nn.Module):
    """A model from token ids to its last hidden state."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, **keywords: torch.Tensor) -> torch.Tensor:
        return self.model(ids, **keywords).last_hidden_state


def _encoder(config: transformers.PreTrainedConfig, model: type | None = None):
    torch.manual_seed(0)
    config._attn_implementation = "eager"
    made = model(config) if model else transformers.AutoModel.from_config(config)
    return _Hidden(made).eval(), torch.randint(3, 96, (1, 10))


_SIZES = {
    "vocab_size": 96,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def distilbert():
    """GELU, learned positions, no token types"""
    return _encoder(
        transformers.DistilBertConfig(vocab_size=96, dim=32, n_layers=2, n_heads=4, hidden_dim=64)
    )


def electra():
    """embeddings narrower than the layers behind them"""
    return _encoder(transformers.ElectraConfig(**_SIZES, embedding_size=16))


def albert():
    """two layers that share their weights"""
    return _encoder(transformers.AlbertConfig(**_SIZES, embedding_size=16))


def t5_encoder():
    """relative positions in buckets, RMS norm, no bias"""
    config = transformers.T5Config(
        vocab_size=96, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4
    )
    return _encoder(config, transformers.T5EncoderModel)


def deberta():
    """scores of content and of relative positions, gathered by index"""
    return _encoder(
        transformers.DebertaV2Config(
            **_SIZES,
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            max_relative_positions=16,
        )
    )


def fnet():
    """Fourier transforms instead of attention"""
    return _encoder(
        transformers.FNetConfig(
            vocab_size=96, hidden_size=32, num_hidden_layers=2, intermediate_size=64
        )
    )
