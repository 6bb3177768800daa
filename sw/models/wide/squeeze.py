"""Squeeze and excitation: inverted residuals whose channels are scaled by their means."""

from torch import Tensor, nn

from sw.models.wide.common import Activation, WideNet, conv, head, image_net


class SqueezeExcite(nn.Module):
    """Channels times a gate that two 1×1 convolutions make of their means."""

    def __init__(self, channels: int, hidden: int, act: Activation, gate: Activation) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.down, self.up = nn.Conv2d(channels, hidden, 1), nn.Conv2d(hidden, channels, 1)
        self.act, self.gate = act(), gate()

    def forward(self, x: Tensor) -> Tensor:
        gate: Tensor = self.gate(self.up(self.act(self.down(self.pool(x)))))
        return x * gate


class Inverted(nn.Module):
    """Expansion, depthwise convolution, squeeze and excitation, projection, residual."""

    def __init__(
        self,
        inputs: int,
        middle: int,
        outputs: int,
        kernel: int,
        stride: int,
        act: Activation,
        squeezed: nn.Module | None,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [conv(inputs, middle, 1, act=act)] if middle > inputs else []
        layers.append(conv(middle, middle, kernel, stride, groups=middle, act=act))
        layers += [squeezed] if squeezed is not None else []
        self.body = nn.Sequential(*layers, conv(middle, outputs, 1, act=None))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.residual else y


_V3 = (
    # kernel, middle, outputs, squeezed, Hardswish, stride
    *((3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1)),
    *((5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1)),
    *((5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1), (5, 288, 96, True, True, 2)),
    *((5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1)),
)


def _mobilenet_v3() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 16, stride=2, act=nn.Hardswish)]
    channels = 16
    for kernel, middle, outputs, squeezed, hard, stride in _V3:
        act: Activation = nn.Hardswish if hard else nn.ReLU
        scaled = (
            SqueezeExcite(middle, max(8, middle // 32 * 8), nn.ReLU, nn.Hardsigmoid)
            if squeezed
            else None
        )
        layers.append(Inverted(channels, middle, outputs, kernel, stride, act, scaled))
        channels = outputs
    layers += [conv(96, 576, 1, act=nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, 1000))


_B0 = (
    # expansion, outputs, repeats, stride, kernel
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3)),
    *((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
)


def _efficientnet() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 32, stride=2, act=nn.SiLU)]
    channels = 32
    for expansion, outputs, repeats, stride, kernel in _B0:
        for i in range(repeats):
            middle = expansion * channels
            scaled = SqueezeExcite(middle, channels // 4, nn.SiLU, nn.Sigmoid)
            step = stride if i == 0 else 1
            layers.append(Inverted(channels, middle, outputs, kernel, step, nn.SiLU, scaled))
            channels = outputs
    return nn.Sequential(*layers, conv(320, 1280, 1, act=nn.SiLU), head(1280, 1000))


def mobilenet_v3(seed: int) -> WideNet:
    return image_net(_mobilenet_v3, seed, 128)


def efficientnet(seed: int) -> WideNet:
    return image_net(_efficientnet, seed, 128)
