"""The wide networks by name, and where each is built. Importing this needs no PyTorch."""

from dataclasses import dataclass

SEED = 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class WideSpec:
    """A network: `family`, `shape` of one sample and its result, for people.

    file: of this folder, which has a function called `name` that returns a `WideNet` for a seed.
    """

    name: str
    family: str
    shape: str
    file: str
    seed: int = SEED


_PLAIN, _SQUEEZE, _GROUPS = "plain stack, large FC", "squeeze and excitation", "grouped"
_ROWS = (
    ("vgg", _PLAIN, "3×96×96 → 1000", "plain"),
    ("alexnet", _PLAIN, "3×128×128 → 1000", "plain"),
    ("mobilenet_v3", _SQUEEZE, "3×128×128 → 1000", "squeeze"),
    ("efficientnet", _SQUEEZE, "3×128×128 → 1000", "squeeze"),
    ("resnext", _GROUPS, "3×128×128 → 1000", "grouped"),
    ("shufflenet", "grouped, channel shuffle", "3×128×128 → 1000", "grouped"),
    ("shufflenet_v2", "split, channel shuffle", "3×128×128 → 1000", "grouped"),
    ("densenet", "dense concatenation", "3×128×128 → 1000", "joined"),
    ("inception", "parallel branches", "3×128×128 → 1000", "joined"),
    ("squeezenet", "parallel branches", "3×128×128 → 1000", "joined"),
    ("convnext", "large depthwise, layer norm", "3×128×128 → 1000", "mobile"),
    ("mlp_mixer", "perceptrons alone", "3×128×128 → 1000", "mobile"),
    ("unet_bilinear", "encoder-decoder", "3×96×96 → 4×96×96", "unets"),
    ("unet_transposed", "encoder-decoder", "3×96×96 → 4×96×96", "unets"),
    ("deeplab", "dilated, bilinear", "3×128×128 → 8×128×128", "unets"),
    ("ssd", "detector", "3×128×128 → 2040×21, 2040×4", "detection"),
    ("retina", "detector, pyramid", "3×128×128 → 3024×20, 3024×4", "detection"),
    ("yolo", "detector, pyramid", "3×128×128 → 960×25", "detection"),
    ("super_resolution", "pixel shuffle", "3×64×64 → 3×128×128", "pictures"),
    ("autoencoder", "transposed convolution", "3×96×96 → 3×96×96", "pictures"),
    ("siamese", "shared branch", "2 of 3×96×96 → 16, 128, 128", "pictures"),
    ("audio", "1-d convolution", "1×8000 → 35", "sound"),
    ("temporal", "1-d, dilated, causal", "10×49 → 12", "sound"),
    ("gru", "recurrent", "49×10 → 12", "recurrent"),
    ("lstm", "recurrent", "32 tokens → 32×20", "recurrent"),
    ("state_space", "state space", "32 tokens → 32×1000", "states"),
    ("swin", "attention in windows", "3×96×96 → 1000", "windows"),
    ("t5", "encoder-decoder of language", "48, 24 tokens → 24×1000", "seq2seq"),
    ("experts", "mixture of experts", "32 tokens → 32×1000", "experts"),
)

WIDE: dict[str, WideSpec] = {
    name: WideSpec(name=name, family=family, shape=shape, file=file)
    for name, family, shape, file in _ROWS
}
