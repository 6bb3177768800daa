"""Damaged ONNX and LiteRT files: a model or an error, and nothing outside of the folder is read.

`PYTHONPATH=.:tests python -m random_files onnx --count 2000` runs more of them.
"""

import warnings

import pytest
import random_files


@pytest.mark.parametrize("door", ["onnx", "litert"])
def test_damaged_files_are_models_or_errors(door):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes, wrong = random_files.run(door, 60)
    assert not wrong, "\n".join(wrong)
    assert outcomes.total() == 60 and outcomes["loaded"] and outcomes["refused"]
