"""Runs in a process of its own: an exported PyTorch program as an int8 LiteRT file.

`converter.py PROGRAM.pt2 IMAGES.npy OUT.tflite`: by litert-torch, then by ai-edge-quantizer with
its recipe of static int8. Both packages are in a folder of `PYTHONPATH` of this process alone. The
first axis of the images counts the calls that calibrate.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch


def main(program: str, images: str, out: str) -> None:
    """Write the float file (`OUT.float.tflite`) and the int8 one."""
    import litert_torch
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_quantizer import quantizer, recipe

    exported = torch.export.load(program)
    batch = np.load(images)
    whole: Any = litert_torch.convert(exported.module(), (torch.from_numpy(batch[:1]),))
    middle = str(Path(out).with_suffix(".float.tflite"))
    whole.export(middle)
    ((signature, ports),) = Interpreter(middle).get_signature_list().items()
    (port,) = ports["inputs"]
    made = quantizer.Quantizer(middle)
    made.load_quantization_recipe(recipe.static_wi8_ai8())
    seen = made.calibrate({signature: [{port: image[None]} for image in batch]})
    made.quantize(seen).export_model(out, overwrite=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
