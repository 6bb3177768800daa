"""32 photographs of packages, for EfficientNet-Lite0."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sw.measure.doors.classifier import pixels
from sw.measure.doors.programs import Array
from sw.models.photographs import picture

_NAMES = (
    *("astronaut.png", "motorcycle_left.png", "motorcycle_right.png", "coffee.png", "chelsea.png"),
    *("retina.jpg", "grass.png", "gravel.png", "camera.png", "rocket.jpg", "brick.png"),
    *("coins.png", "cell.png", "moon.png", "hubble_deep_field.jpg", "ihc.png", "clock_motion.png"),
    *("horse.png", "page.png", "text.png"),
)
SOURCES = (
    *(("skimage", f"data/{name}") for name in _NAMES),
    ("sklearn", "datasets/images/china.jpg"),
    ("sklearn", "datasets/images/flower.jpg"),
    ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg"),
)
WIDE = ("china", "flower", "coffee", "motorcycle_left", "rocket")
"""Pictures whose ends are taken too, so that there are 32."""

COUNT = 32
_SHARE = 0.875
"""Of the shorter side: what is left of a picture when classifiers are tested on ImageNet."""


def photographs(size: int) -> Array:
    """As the network takes them: float32 [32, 3, size, size]."""
    return np.stack([_scaled(square, size) for square in _squares()])


def _squares() -> Iterator[Array]:
    """The middle of every picture, then the ends of wide ones."""
    pictures = {Path(file).stem: picture(package, file) for package, file in SOURCES}
    for each in pictures.values():
        yield _square(each, 0.5)
    for number in range(COUNT - len(pictures)):
        yield _square(pictures[WIDE[number // 2]], float(number % 2))


def _square(image: Array, place: float) -> Array:
    """A square; place: from the left end (0) to the right one (1)."""
    height, width = image.shape[:2]
    side = int(min(height, width) * _SHARE)
    top, left = int((height - side) / 2), int((width - side) * place)
    return image[top : top + side, left : left + side]


def _scaled(square: Array, size: int) -> Array:
    from PIL import Image

    image = Image.fromarray(square).resize((size, size), Image.Resampling.BICUBIC)
    return pixels(np.asarray(image).transpose(2, 0, 1))
