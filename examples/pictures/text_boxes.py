"""From what PP-OCR's networks put out to text: boxes of lines, and letters of their classes."""

import numpy as np
from PIL import Image
from scipy.spatial import ConvexHull
from skimage.measure import label, regionprops
from skimage.morphology import dilation
from skimage.transform import estimate_transform, warp

from examples.pictures.text_images import normalized

HEIGHT = 48
"""Pixels of a line that the recognizer reads."""

Corners = np.ndarray
"""[4, 2]: x and y, clockwise from the text's upper left."""


def boxes(heat: np.ndarray, photo: Image.Image) -> list[Corners]:
    """The text that a map of probabilities [1, 1, height, width] shows, from top to bottom."""
    heat = heat[0, 0]
    scale = np.array(photo.size) / heat.shape[::-1]
    found = []
    for region in regionprops(label(dilation(heat > 0.3, np.ones((2, 2)))), heat):
        if region.area < 12 or region.intensity_mean < 0.5:
            continue
        corners = smallest_rectangle(region.coords[:, ::-1] + 0.5)
        long, short = (np.linalg.norm(corners[i] - corners[i + 1]) for i in (0, 1))
        if min(long, short) >= 3:  # the map shows the middle of a line only
            more = 1.6 * long * short / (2 * (long + short))
            found.append(grown(corners, more) * scale)
    return sorted(found, key=lambda corners: corners[:, 1].mean())


def smallest_rectangle(points: np.ndarray) -> Corners:
    """The rectangle of least area around points; one of its sides lies on their convex hull."""
    hull = points[ConvexHull(points).vertices]
    best, least = hull[:4], np.inf
    for x, y in np.roll(hull, -1, 0) - hull:
        angle = np.arctan2(y, x)
        angle -= np.pi / 2 * np.round(angle / (np.pi / 2))  # text lies within 45° of level
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        (left, top), (right, bottom) = (hull @ turn).min(0), (hull @ turn).max(0)
        if (right - left) * (bottom - top) < least:
            least = (right - left) * (bottom - top)
            level = np.array([[left, top], [right, top], [right, bottom], [left, bottom]])
            best = level @ turn.T
    return best


def grown(corners: Corners, by: float) -> Corners:
    """The rectangle with each side moved outwards."""
    along, down = corners[1] - corners[0], corners[3] - corners[0]
    along, down = (by * side / np.linalg.norm(side) for side in (along, down))
    return corners + np.array([-along - down, along - down, along + down, down - along])


def line_of(photo: Image.Image, corners: Corners) -> Image.Image:
    """The text inside a box, level, `HEIGHT` pixels high."""
    long, short = (np.linalg.norm(corners[i] - corners[i + 1]) for i in (0, 1))
    width = max(8, round(HEIGHT * long / short))
    level = np.array([[0, 0], [width, 0], [width, HEIGHT], [0, HEIGHT]])
    turn = estimate_transform("affine", level, corners)
    pixels = warp(np.asarray(photo), turn, output_shape=(HEIGHT, width), mode="edge")
    return Image.fromarray(np.uint8(pixels * 255))


def padded(line: Image.Image, width: int) -> np.ndarray:
    """A line as the recognizer takes it; longer ones are narrowed."""
    if line.width > width:
        line = line.resize((width, HEIGHT))
    out = np.zeros((1, 3, HEIGHT, width), np.float32)
    out[..., : line.width] = normalized(line)
    return out


def spelt(probabilities: np.ndarray, characters: list[str]) -> tuple[str, float]:
    """(text, mean probability) of the classes [1, steps, classes]; class 0 separates letters."""
    classes = probabilities[0].argmax(-1)
    new = (classes > 0) & (classes != np.roll(classes, 1))
    new[0] = classes[0] > 0
    sure = float(probabilities[0].max(-1)[new].mean()) if new.any() else 0.0
    return "".join(characters[c - 1] for c in classes[new]), sure
