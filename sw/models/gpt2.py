"""GPT-2 as two programs: one reads the prompt, the other makes a token a run from keys and values.

Keys and values go in and out as tensors. Both programs hold them in the same integers, so that what
comes out goes in again as it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.ports import Imported, ModelPort
from sw.compiler.frontend.quantized import QuantizedModel
from sw.models.store import Network, load_network
from sw.models.transformer_table import GENERATORS, SEED

Inputs = tuple[torch.Tensor, ...]

MASKED = -100.0
"""Added to the scores of what does not count: e^−100 is 0 in every format."""

_DECODE_CALLS, _PREFILL_CALLS = 32, 8
"""Calls that calibrate."""


class Decoder(nn.Module):
    """One step of GPT-2's decoding: a token, its position, a mask of the state, and the state.

    mask: [1, 1, 1, state + 1], added to the scores. caches: keys and values [1, heads, state,
    size], layer by layer. Returns the logits [1, 1, vocabulary] and the new row of each cache,
    [1, heads, 1, size]; the caller puts them in their place.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, token: torch.Tensor, position: torch.Tensor, mask: torch.Tensor, *caches: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        body = self.model.transformer
        x = body.wte(token) + body.wpe(position)
        rows: list[torch.Tensor] = []
        for i, block in enumerate(body.h):
            q, k, v = _heads(block, x)
            keys, values = torch.cat([caches[2 * i], k], 2), torch.cat([caches[2 * i + 1], v], 2)
            mixed = nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
            x = _rest(block, x, mixed)
            rows += [k, v]
        return self.model.lm_head(body.ln_f(x)), *rows


class Prefill(nn.Module):
    """The prompt, [1, prompt] tokens, at once.

    Returns the logits behind its last token, [1, 1, vocabulary], and the keys and values of all,
    [1, heads, prompt, size], layer by layer.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        body = self.model.transformer
        x = body.wte(ids) + body.wpe(torch.arange(ids.shape[1]))[None]
        rows: list[torch.Tensor] = []
        for block in body.h:
            q, k, v = _heads(block, x)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = _rest(block, x, mixed)
            rows += [k, v]
        return self.model.lm_head(body.ln_f(x[:, -1:])), *rows


def _heads(block: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """Query, keys and values of `x` [1, tokens, …], each [1, heads, tokens, size]."""
    attention, tokens = block.attn, x.shape[1]
    parts = attention.c_attn(block.ln_1(x)).chunk(3, -1)
    return [p.reshape(1, tokens, -1, attention.head_dim).transpose(1, 2) for p in parts]


def _rest(block: Any, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
    """A block behind its attention."""
    joined = mixed.transpose(1, 2).reshape(1, x.shape[1], -1)
    x = x + block.attn.c_proj(joined)
    return torch.as_tensor(x + block.mlp(block.ln_2(x)))


def decoder(config: Any, state: int = 16) -> tuple[nn.Module, Callable[[], Inputs]]:
    """GPT-2's decoder step and calls of it, with the state that real tokens leave."""
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel(config).eval()
    return Decoder(model), lambda: decode_call(model, state, state // 2)


def decode_call(model: Any, state: int, least: int) -> Inputs:
    """Arguments of a `Decoder` behind `least`…`state` random tokens."""
    ids = torch.randint(0, model.config.vocab_size, (1, state + 1))
    with torch.no_grad():
        cache = model(ids[:, :-1], use_cache=True).past_key_values
    valid = int(torch.randint(least, state + 1, (1,)))
    pairs = [(layer.keys, layer.values) for layer in cache.layers]
    caches = [t.clone() for pair in pairs for t in pair]
    return ids[:, -1:], torch.tensor([[valid]]), state_mask(state, valid), *caches


def state_mask(state: int, valid: int) -> torch.Tensor:
    """What is added to the scores of `state` rows and the new one; the first `valid` count."""
    mask = torch.zeros(1, 1, 1, state + 1)
    mask[..., valid:state] = MASKED
    return mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """A network that continues a prompt. model: in floats; state: rows of a cache.

    prompt: [1, tokens], of its own seed.
    """

    name: str
    model: Any
    prompt: torch.Tensor
    state: int
    prefill: Imported
    decode: Imported


def build_generator(name: str, prompt: int, tokens: int) -> Generator:
    """The network called `name`, for a prompt of `prompt` tokens and `tokens` runs of decoding.

    Weights, prompt and what calibrates are random and seeded. The output layer has weights of its
    own: one that shares the embedding's repeats its input as long as nothing was trained. The
    integers of both programs come from the cache where they were made before.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(SEED)
    model = GPT2LMHeadModel(
        GPT2Config(
            **GENERATORS[name],
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=None,
        )
    ).eval()
    begin = _prompt(model, prompt)
    sizes = f"{prompt}-{tokens}"
    decode = _stored(f"{name}-decode-{sizes}", lambda: _decode(model, name, prompt, tokens))
    caches = decode.inputs[3:]
    prefill = _stored(f"{name}-prefill-{sizes}", lambda: _prefill(model, name, prompt, caches))
    return Generator(
        name=name,
        model=model,
        prompt=begin,
        state=prompt + tokens,
        prefill=prefill,
        decode=decode,
    )


def _decode(model: Any, name: str, prompt: int, tokens: int) -> Imported:
    calls = [decode_call(model, prompt + tokens, prompt) for _ in range(_DECODE_CALLS)]
    return import_model(
        Decoder(model),
        calls[0],
        calibration=calls,
        policy="wide",
        name=f"{name}_decode",
        outputs=[None, *range(3, 3 + 2 * model.config.n_layer)],
    )


def _prefill(model: Any, name: str, prompt: int, caches: Sequence[ModelPort]) -> Imported:
    calls = [(_prompt(model, prompt),) for _ in range(_PREFILL_CALLS)]
    return import_model(
        Prefill(model),
        calls[0],
        calibration=calls,
        policy="wide",
        name=f"{name}_prefill",
        outputs=[None, *caches],
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """What the cache knows a program by."""

    name: str
    seed: int


def _stored(name: str, make: Callable[[], Imported]) -> Imported:
    """The program called `name` from the cache, or made from calls of its own seed and stored."""

    def build(entry: Network) -> QuantizedModel:
        torch.manual_seed(entry.seed)
        return QuantizedModel(imported=make(), info={"name": name, "seed": entry.seed})

    return load_network(_Entry(name, SEED + 1), build).imported


def _prompt(model: Any, tokens: int) -> torch.Tensor:
    return torch.randint(0, model.config.vocab_size, (1, tokens))
