"""Pictures of text to calibrate text readers with: words of Python's documentation on photographs.

The fonts are those that matplotlib brings. The same call draws the same pictures everywhere.
"""

import re
from pathlib import Path
from pydoc_data.topics import topics

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from sw.models.photographs import crops

FONTS = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSerif", "DejaVuSansMono", "STIXGeneral")


def lines(count: int, width: int, seed: int, height: int = 48) -> list[np.ndarray]:
    """`count` lines of text [1, 3, height, width] in −1…1, padded with 0 where they are shorter.

    Every second one is drawn smaller and enlarged, as the lines of a photo are: its edges are soft.
    """
    rng = np.random.default_rng(seed)
    found = []
    for i in range(count):
        wanted = int(width * rng.uniform(0.5, 1.0))
        drawn = int(rng.integers(14, 40)) if i % 2 else height
        size = int(drawn * rng.uniform(0.55, 0.8))
        picture = _page(rng, max(8, round(wanted * drawn / height)), drawn, size)
        line = np.zeros((1, 3, height, width), np.float32)
        line[..., :wanted] = normalized(picture.resize((wanted, height), Image.Resampling.BILINEAR))
        found.append(line)
    return found


def pages(count: int, height: int, width: int, seed: int) -> list[np.ndarray]:
    """`count` pages of text [1, 3, height, width] in −1…1, each in a size of its own."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(10, max(11, height // 6), count)
    return [normalized(_page(rng, width, height, int(size))) for size in sizes]


def normalized(picture: Image.Image) -> np.ndarray:
    """[1, 3, height, width] in −1…1, the channels in the order blue, green, red."""
    pixels = np.asarray(picture.convert("RGB"), np.float32)[..., ::-1] / 127.5 - 1
    return pixels.transpose(2, 0, 1)[None].copy()


def _page(rng: np.random.Generator, width: int, height: int, size: int) -> Image.Image:
    """Lines of text on paper, or now and then on a photograph, slightly turned and blurred."""
    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    font = ImageFont.truetype(str(folder / f"{rng.choice(FONTS)}.ttf"), size)
    dark = rng.random() < 0.8
    shade = rng.integers(170, 256) if dark else rng.integers(0, 80)
    colour = tuple(int(c) for c in (rng.integers(0, 90, 3) if dark else rng.integers(170, 256, 3)))
    paper = np.full((height, width, 3), shade, np.float32)
    photograph = crops(int(rng.integers(1, 6)), max(width, height), int(rng.integers(99)))[-1]
    weight = rng.uniform(0.0, 0.25)
    paper = paper * (1 - weight) + 255 * weight * photograph.transpose(1, 2, 0)[:height, :width]
    picture = Image.fromarray(np.uint8(np.clip(paper, 0, 255)))
    draw = ImageDraw.Draw(picture)
    words = re.findall(r"[A-Za-z0-9(),.:'_-]+", topics[rng.choice(sorted(topics))])
    y = (height - size * 1.2) / 2 if height < 2 * size else size // 2
    while y + size < height * 1.02:
        first = int(rng.integers(len(words)))
        draw.text((size // 4, y), " ".join(words[first : first + 12]), colour, font)
        y += size * rng.uniform(1.4, 2.5)
    turned = picture.rotate(rng.uniform(-1.0, 1.0), Image.Resampling.BILINEAR, fillcolor=colour)
    return turned.filter(ImageFilter.GaussianBlur(rng.uniform(0.0, size / 30)))
