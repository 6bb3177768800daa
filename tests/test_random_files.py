"""Damaged files of other frameworks: a model or an error, and nothing outside is read.

`PYTHONPATH=.:tests python -m random_files onnx --count 2000` runs more of them.
"""

import warnings

import pytest
import random_files


@pytest.mark.parametrize(
    ("door", "count"),
    [
        *(("onnx", 60), ("microsoft", 60), ("litert", 60), ("nnef", 20), ("pt2", 30)),
        *(("stablehlo", 30), ("tosa", 60)),
    ],
)
def test_damaged_files_are_models_or_errors(door, count):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes, wrong = random_files.run(door, count)
    assert not wrong, "\n".join(wrong)
    assert outcomes.total() == count and outcomes["loaded"] and outcomes["refused"]
