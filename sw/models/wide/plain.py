"""Plain stacks of convolutions with large fully connected layers behind them."""

from torch import nn

from sw.models.wide.common import WideNet, conv, image_net


def _classifier(inputs: int, *sizes: int) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Flatten()]
    for size in sizes[:-1]:
        layers += [nn.Linear(inputs, size), nn.ReLU()]
        inputs = size
    return [*layers, nn.Linear(inputs, sizes[-1])]


def _vgg() -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for outputs in (32, 0, 64, 0, 128, 128, 0, 256, 256, 0, 256, 256, 0):
        if not outputs:
            layers.append(nn.MaxPool2d(2))
            continue
        layers.append(conv(channels, outputs))
        channels = outputs
    return nn.Sequential(*layers, *_classifier(256 * 9, 4096, 1000))


def _alexnet() -> nn.Module:
    def stage(inputs: int, outputs: int, *window: int) -> list[nn.Module]:
        layer = nn.Conv2d(inputs, outputs, *window, bias=False)
        return [layer, nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(
        *stage(3, 64, 11, 4, 2),
        nn.MaxPool2d(3, 2),
        *stage(64, 192, 5, 1, 2),
        nn.MaxPool2d(3, 2),
        *stage(192, 384, 3, 1, 1),
        *stage(384, 256, 3, 1, 1),
        *stage(256, 256, 3, 1, 1),
        nn.MaxPool2d(3, 2),
        *_classifier(256 * 9, 2048, 2048, 1000),
    )


def vgg(seed: int) -> WideNet:
    return image_net(_vgg, seed, 96)


def alexnet(seed: int) -> WideNet:
    return image_net(_alexnet, seed, 128)
