"""Small language models of `transformers`, random weights: one greedy step.

    systola run examples/modules/transformers_decoders.py:mistral

Each takes token ids and returns the logits of the next token and the token that greedy decoding
takes.
"""

import torch
import transformers
from torch import nn


class _GreedyStep(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.model(ids, use_cache=False).logits[:, -1]
        return logits, logits.argmax(-1)


_SIZES = {
    "vocab_size": 96,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}


def _decoder(name: str, **options):
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**_SIZES, **options})
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config)
    return _GreedyStep(model).eval(), torch.randint(0, 96, (1, 8))


def mistral():
    """RMS norm, rotary positions, two key heads for four query heads, a window of 4 tokens"""
    return _decoder("Mistral", num_key_value_heads=2, sliding_window=4)


def phi():
    """attention and MLP in parallel, rotary positions on half of each head"""
    return _decoder("Phi", partial_rotary_factor=0.5)


def gpt_neox():
    """parallel residual, one matrix for queries, keys and values"""
    return _decoder("GPTNeoX", rotary_pct=0.25)


def gemma2():
    """capped logits and scores (tanh), norms before and after each part"""
    return _decoder("Gemma2", head_dim=8, num_key_value_heads=2, query_pre_attn_scalar=8)


def opt():
    """learned positions, ReLU, layer norms with bias"""
    return _decoder("OPT", ffn_dim=64, word_embed_proj_dim=32)


def qwen3():
    """RMS norm on each head's queries and keys"""
    return _decoder("Qwen3", head_dim=8, num_key_value_heads=2)
