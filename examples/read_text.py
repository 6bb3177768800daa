"""Read the text of a photograph, on the NPU: PP-OCR's detector and recognizer from ONNX files.

    pip install --no-deps rapidocr-onnxruntime
    python examples/read_text.py photo.png --out text.png
    python examples/read_text.py photo.png --device rtl --side 96

The files are float. They are quantized with pictures of text that are drawn for it.
"""

import argparse
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from rich.console import Console
from scipy.spatial import ConvexHull
from skimage.measure import label, regionprops
from skimage.morphology import dilation
from skimage.transform import estimate_transform, warp

# Run from a source tree without installing it.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import systola
from examples.text_images import lines, normalized, pages
from sw.frontends.onnx import load_onnx
from sw.measure.calls import MeasuredModel
from sw.runtime.session import DeviceOptions, open_device

HEIGHT = 48
"""Pixels of a line that the recognizer reads."""

Corners = np.ndarray
"""[4, 2]: x and y, clockwise from the text's upper left."""


def model_file(name: str) -> Path:
    """A model file of the package, which is not imported: it would want OpenCV."""
    found = importlib.util.find_spec("rapidocr_onnxruntime")
    if found is None or found.origin is None:
        raise SystemExit(f"{name} is in a package: pip install --no-deps rapidocr-onnxruntime")
    return Path(found.origin).parent / "models" / name


DETECTOR, RECOGNIZER = "ch_PP-OCRv4_det_infer.onnx", "ch_PP-OCRv4_rec_infer.onnx"


def sides(photo: Image.Image, shorter: int) -> tuple[int, int]:
    """(height, width) of the photo for the detector, in multiples of 32."""
    scale = shorter / min(photo.size)
    width, height = (max(32, round(size * scale / 32) * 32) for size in photo.size)
    return height, width


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
    return corners + [-along - down, along - down, along + down, down - along]


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


PRECISION = {
    DETECTOR: {f"p2o_Conv_{i}": "int16" for i in (1, 2, 3, 6)},
    RECOGNIZER: {},
}
"""The layers that `systola sensitivity` names first: they read 16 bits."""


def compiled(name: str, shape: tuple[int, ...], npu: systola.NpuConfig, calibration: object):
    """A model file for one shape of its input."""
    model = load_onnx(model_file(name), shapes={"x": shape})
    return systola.compile(
        model.module, model.example, npu, calibration=calibration, name=name.removesuffix(".onnx"),
        precision=PRECISION[name],
    )  # fmt: skip


def characters() -> list[str]:
    """What the recognizer's classes from 1 on are; the file brings them along."""
    import onnx

    properties = onnx.load(model_file(RECOGNIZER), load_external_data=False).metadata_props
    return next(p.value for p in properties if p.key == "character").split("\n") + [" "]


def drawn(photo: Image.Image, found: list[tuple[Corners, str]]) -> Image.Image:
    """The photo with its boxes, and below it what was read."""
    size = max(12, photo.width // 30)
    picture = Image.new("RGB", (photo.width, photo.height + int(1.4 * size * (len(found) + 1))), "white")
    picture.paste(photo)
    draw = ImageDraw.Draw(picture)
    for row, (corners, text) in enumerate(found):
        draw.polygon([tuple(corner) for corner in corners], outline="red", width=2)
        at = (size, photo.height + int(1.4 * size * (row + 0.4)))
        draw.text(at, text, "black", font_size=size)
    return picture


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photo", type=Path)
    parser.add_argument("--out", type=Path, default=Path("text.png"))
    parser.add_argument("--side", type=int, default=192, help="pixels of the detector's short side")
    parser.add_argument("--width", type=int, default=640, help="most pixels of a line")
    parser.add_argument("--device", choices=("golden", "rtl"), default="golden")
    parser.add_argument("--config", default="default", help="preset of the NPU")
    parser.add_argument("--clock", type=float, default=500.0, help="MHz")
    args = parser.parse_args()

    npu, console = systola.preset(args.config), Console()
    photo = Image.open(args.photo).convert("RGB")
    height, width = sides(photo, args.side)
    small = normalized(photo.resize((width, height), Image.Resampling.BILINEAR))
    program = compiled(DETECTOR, small.shape, npu, pages(12, height, width, seed=1))
    with open_device(npu, DeviceOptions(device=args.device)) as device:
        detect = MeasuredModel(program, device, args.clock)
        found = boxes(detect(small)[0], photo)
        detect.report.print(console)
        if not found:
            print("no text found")
            return 1 if detect.report.failed else 0
        texts = [line_of(photo, corners) for corners in found]
        width = min(args.width, max(-(-text.width // 32) * 32 for text in texts))
        program = compiled(RECOGNIZER, (1, 3, HEIGHT, width), npu, lines(12, width, seed=1))
        recognize, known = MeasuredModel(program, device, args.clock), characters()
        read = [spelt(recognize(padded(text, width))[0], known) for text in texts]
        recognize.report.print(console)
    for text, sure in read:
        print(f"{sure:.2f}  {text}")
    drawn(photo, [(c, text) for c, (text, _) in zip(found, read, strict=True)]).save(args.out)
    print(f"{len(read)} lines, drawn into {args.out}")
    return 1 if detect.report.failed or recognize.report.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
