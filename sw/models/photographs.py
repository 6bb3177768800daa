"""Photographs to calibrate and test image networks with: crops of pictures that packages bring.

scikit-learn's two sample images and scikit-image's bundled ones (microscopy and texture among
them, grey ones as three equal channels). Nothing is downloaded, and the same call gives the same
crops everywhere.
"""

import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SOURCES = (
    ("sklearn", "datasets/images/china.jpg"),
    ("skimage", "data/astronaut.png"),
    ("skimage", "data/coffee.png"),
    ("sklearn", "datasets/images/flower.jpg"),
    ("skimage", "data/motorcycle_left.png"),
    ("skimage", "data/chelsea.png"),
    ("skimage", "data/camera.png"),
    ("skimage", "data/ihc.png"),
    ("skimage", "data/retina.jpg"),
    ("skimage", "data/coins.png"),
    ("skimage", "data/hubble_deep_field.jpg"),
    ("skimage", "data/gravel.png"),
)
"""(package, file in it); crop i is of source i modulo the number of those that are taken."""

DATA = f"random crops of {len(SOURCES)} pictures of scikit-learn and scikit-image"


def crops(count: int, size: int, seed: int, without: Sequence[str] = ()) -> NDArray[np.float32]:
    """`count` different crops as float32 [count, 3, size, size] in 0…1.

    without: names of pictures that are left out (`astronaut`), to be tested on. Each crop is a
    square of 40 to 100% of the picture's shorter side at a random place, half of them mirrored,
    scaled to `size` with antialiasing.
    """
    from PIL import Image

    sources = [source for source in SOURCES if Path(source[1]).stem not in without]
    out = np.empty((count, 3, size, size), np.float32)
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        whole = picture(*sources[i % len(sources)])
        height, width = whole.shape[:2]
        side = int(min(height, width) * rng.uniform(0.4, 1.0))
        top, left = (int(rng.integers(0, n - side + 1)) for n in (height, width))
        crop = whole[top : top + side, left : left + side]
        if rng.integers(2):
            crop = crop[:, ::-1]
        scaled = Image.fromarray(crop).resize((size, size), Image.Resampling.BILINEAR)
        out[i] = np.asarray(scaled, np.float32).transpose(2, 0, 1) / 255.0
    return out


def photograph(name: str) -> NDArray[np.uint8]:
    """The whole picture [height, width, 3] called `name` in `SOURCES`: `astronaut`, `coffee`, …"""
    return picture(*next(source for source in SOURCES if Path(source[1]).stem == name))


@lru_cache(maxsize=32)
def picture(package: str, file: str) -> NDArray[np.uint8]:
    """A picture [height, width, 3] that is a file of a package.

    The package is only located, not imported: that takes a second.
    """
    from PIL import Image

    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    with Image.open(Path(spec.origin).parent / file) as image:
        return np.ascontiguousarray(np.asarray(image.convert("RGB")))
