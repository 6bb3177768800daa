"""Networks of `transformers` for images and sound, random weights.

systola run examples/modules/transformers_images_and_sound.py:convnext
"""

import torch
import transformers
from torch import nn


class _Result(nn.Module):
    """A model from pixels or samples to its logits, or else its last hidden state."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.model(x)
        return out.logits if "logits" in out else out.last_hidden_state


def _network(config: transformers.PreTrainedConfig, auto: type, *shape: int):
    torch.manual_seed(0)
    config._attn_implementation = "eager"
    model, example = _Result(auto.from_config(config)), torch.randn(1, *shape)
    _settle(model, torch.randn(8, *shape))
    return model.eval(), example


def _settle(model: nn.Module, data: torch.Tensor) -> None:
    """Batch norms take the statistics of data: without them, untrained networks fade to zero."""
    norms = [part for part in model.modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None  # the mean of what is seen
    if norms:
        with torch.no_grad():
            model.train()(data)


def convnext():
    """7×7 depthwise convolutions, layer norm over channels, GELU"""
    config = transformers.ConvNextConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_labels=10
    )
    return _network(config, transformers.AutoModelForImageClassification, 3, 32, 32)


def segformer():
    """attention on shortened sequences, a decoder that joins four sizes (bilinear)"""
    config = transformers.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
        num_labels=4,
    )
    return _network(config, transformers.AutoModelForSemanticSegmentation, 3, 32, 32)


def mobilevit():
    """inverted bottlenecks with SiLU, transformers over unfolded patches"""
    config = transformers.MobileViTConfig(
        image_size=64,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 16, 16, 32],
        num_attention_heads=2,
        num_labels=10,
    )
    return _network(config, transformers.AutoModelForImageClassification, 3, 64, 64)


def swin():
    """attention in shifted windows (`roll`), merged patches"""
    config = transformers.SwinConfig(
        image_size=32, patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[2, 4], window_size=4
    )
    return _network(config, transformers.AutoModel, 3, 32, 32)


def dinov2():
    """a vision transformer with layer scales and a class token"""
    config = transformers.Dinov2Config(
        image_size=28, hidden_size=32, num_hidden_layers=2, num_attention_heads=4
    )
    return _network(config, transformers.AutoModel, 3, 28, 28)


def regnet():
    """grouped convolutions with squeeze and excitation"""
    config = transformers.RegNetConfig(
        embedding_size=8,
        hidden_sizes=[16, 16, 32, 32],
        depths=[1, 1, 1, 1],
        groups_width=8,
        num_labels=10,
    )
    return _network(config, transformers.AutoModelForImageClassification, 3, 32, 32)


def poolformer():
    """average pooling instead of attention, group norm"""
    config = transformers.PoolFormerConfig(
        hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_labels=10
    )
    return _network(config, transformers.AutoModelForImageClassification, 3, 32, 32)


def wav2vec2():
    """1D convolutions over samples of sound, a grouped one for positions, attention"""
    config = transformers.Wav2Vec2Config(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        conv_dim=(16, 16, 16),
        conv_kernel=(10, 3, 3),
        conv_stride=(5, 2, 2),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        vocab_size=24,
    )
    return _network(config, transformers.AutoModelForCTC, 800)
