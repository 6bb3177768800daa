"""Squares of photographs for MediaPipe's short-range detector, and faces of its output."""

import numpy as np
from PIL import Image

SIDE = 128
STRIDES = (8, 16, 16, 16)
"""Pixels between the anchors of each layer of the detector; two anchors at each place."""


def squared(photo: Image.Image, side: int = SIDE) -> tuple[np.ndarray, np.ndarray, float]:
    """(pixels [1, side, side, 3] in −1…1, offset of the photo in the square, pixels a unit)."""
    longest = max(photo.size)
    square = Image.new("RGB", (longest, longest))
    offset = np.array([(longest - size) // 2 for size in photo.size])
    square.paste(photo, tuple(offset))
    small = square.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(small, np.float32)[None] / 127.5 - 1, offset, longest


def anchors() -> np.ndarray:
    """The centres [896, 2] that boxes are relative to, x and y in 0…1."""
    rows = []
    for stride in STRIDES:
        places = (np.arange(SIDE // stride) + 0.5) / (SIDE // stride)
        y, x = np.meshgrid(places, places, indexing="ij")
        rows.append(np.repeat(np.stack([x, y], -1).reshape(-1, 2), 2, axis=0))
    return np.concatenate(rows)


def decoded(boxes: np.ndarray, scores: np.ndarray, least: float = 0.75) -> list[np.ndarray]:
    """Faces, the surest first: score, then x and y of two corners and six points, in 0…1."""
    scores = 1 / (1 + np.exp(-np.clip(scores[0, :, 0], -80, 80)))
    chosen = np.flatnonzero(scores > least)
    raw = boxes[0, chosen].reshape(-1, 8, 2) / SIDE
    centre = raw[:, :1] + anchors()[chosen][:, None]
    points = raw[:, 2:] + anchors()[chosen][:, None]
    corners = np.concatenate([centre - raw[:, 1:2] / 2, centre + raw[:, 1:2] / 2], 1)
    rows = np.concatenate([corners, points], 1)
    order, faces = list(np.argsort(-scores[chosen])), []
    while order:  # boxes of one face are averaged by their scores
        same = [i for i in order if iou(rows[order[0]], rows[i]) > 0.3]
        weights = scores[chosen][same]
        mean = np.average(rows[same], axis=0, weights=weights)
        faces.append(np.concatenate([weights[:1], mean.ravel()]))
        order = [i for i in order if i not in same]
    return faces


def iou(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union of two boxes, whose first two rows are corners."""
    inside = np.prod(np.maximum(0, np.minimum(a[1], b[1]) - np.maximum(a[0], b[0])))
    return float(inside / (np.prod(a[1] - a[0]) + np.prod(b[1] - b[0]) - inside))


def in_photo(face: np.ndarray, offset: np.ndarray, longest: float) -> np.ndarray:
    """The same face in pixels of the photo."""
    return np.concatenate([face[:1], (face[1:].reshape(-1, 2) * longest - offset).ravel()])
