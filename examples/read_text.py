"""Read the text of a photograph, on the NPU: PP-OCR's detector and recognizer from ONNX files.

    python examples/read_text.py photo.png --out text.png
    python examples/read_text.py photo.png --device rtl --side 96

The files are float. They are quantized with pictures of text that are drawn for it.
"""

import argparse
import sys
from pathlib import Path

from PIL import Image, ImageDraw
from rich.console import Console

# Run from a source tree without installing it.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import systola
from examples.pictures.text_boxes import HEIGHT, Corners, boxes, line_of, padded, spelt
from examples.pictures.text_images import lines, normalized, pages
from sw.frontends.onnx import load_onnx
from sw.frontends.packaged import packaged_file
from sw.runtime.calls import MeasuredModel
from sw.runtime.session import DeviceOptions, open_device


def model_file(name: str) -> Path:
    return packaged_file("rapidocr_onnxruntime", f"models/{name}", "rapidocr-onnxruntime")


DETECTOR, RECOGNIZER = "ch_PP-OCRv4_det_infer.onnx", "ch_PP-OCRv4_rec_infer.onnx"


def sides(photo: Image.Image, shorter: int) -> tuple[int, int]:
    """(height, width) of the photo for the detector, in multiples of 32."""
    scale = shorter / min(photo.size)
    width, height = (max(32, round(size * scale / 32) * 32) for size in photo.size)
    return height, width


FAST = {
    DETECTOR: {"p2o_Conv_2": "int16"},
    RECOGNIZER: {f"p2o_Conv_{number}": "int16" for number in (2, 3, 5, 6)},
}
"""The layers that `systola sensitivity` names first read 16 bits: they have most of the loss."""


def compiled(
    name: str, shape: tuple[int, ...], npu: systola.NpuConfig, calibration: object, fast: bool
):  # fmt: skip
    """A model file for one shape of its input.

    Letters are told apart by less than int8 leaves of them, and spaces by where a box ends: all
    layers have 16 bits, their weights too, unless it is to be fast.
    """
    model = load_onnx(model_file(name), shapes={"x": shape})
    return systola.compile(
        model.module, model.example, npu, calibration=calibration, name=name.removesuffix(".onnx"),
        precision=FAST[name] if fast else {"*": "int16x16"},
    )  # fmt: skip


def characters() -> list[str]:
    """What the recognizer's classes from 1 on are; the file brings them along."""
    import onnx

    properties = onnx.load(model_file(RECOGNIZER), load_external_data=False).metadata_props
    text = next(p.value for p in properties if p.key == "character")
    return [*text.split("\n"), " "]


def drawn(photo: Image.Image, found: list[tuple[Corners, str]]) -> Image.Image:
    """The photo with its boxes, and below it what was read."""
    size = max(12, photo.width // 30)
    picture = Image.new(
        "RGB", (photo.width, photo.height + int(1.4 * size * (len(found) + 1))), "white"
    )
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
    parser.add_argument("--width", type=int, default=1280, help="most pixels of a line")
    parser.add_argument("--fast", action="store_true", help="nearly all in 8 bits")
    parser.add_argument("--device", choices=("golden", "rtl"), default="golden")
    parser.add_argument("--config", default="default", help="preset of the NPU")
    parser.add_argument("--clock", type=float, default=500.0, help="MHz")
    args = parser.parse_args()

    npu, console = systola.preset(args.config), Console()
    photo = Image.open(args.photo).convert("RGB")
    height, width = sides(photo, args.side)
    small = normalized(photo.resize((width, height), Image.Resampling.BILINEAR))
    program = compiled(DETECTOR, small.shape, npu, pages(36, height, width, seed=1), args.fast)
    with open_device(npu, DeviceOptions(device=args.device)) as device:
        detect = MeasuredModel(program, device, args.clock)
        found = boxes(detect(small)[0], photo)
        detect.report.print(console)
        if not found:
            print("no text found")
            return 1 if detect.report.failed else 0
        texts = [line_of(photo, corners) for corners in found]
        width = min(args.width, max(-(-text.width // 32) * 32 for text in texts))
        shape, drawn_lines = (1, 3, HEIGHT, width), lines(36, width, seed=1)
        program = compiled(RECOGNIZER, shape, npu, drawn_lines, args.fast)
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
