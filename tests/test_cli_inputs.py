"""Inputs of a run: what is no array is refused by name, before any device is opened."""

import re

import numpy as np
import pytest
from cli_helpers import copy_image, systola

from sw.runtime.session import OptionError, check_inputs


@pytest.mark.parametrize("value", [[1, 2], 3, None, "x"])
def test_input_that_is_no_array_is_refused(value):
    message = f"input x: {type(value).__name__} given, the program takes a NumPy array of int8[64]"
    with pytest.raises(OptionError, match=f"^{re.escape(message)}$"):
        check_inputs(copy_image(), {"x": value})


def test_inputs_far_outside_the_calibration_are_a_line_of_warning(tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\ndef make():\n    return torch.nn.Linear(4, 2)\n"
    )
    np.save(tmp_path / "calib.npy", np.ones((4, 4), np.float32))
    np.save(tmp_path / "input.npy", np.full((1, 4), 50, np.float32))
    code, _, err = systola(
        *("run", "net.py:make", "--device", "golden", "--config", "tiny"),
        *("--input", "input.npy", "--calib", "calib.npy"),
        cwd=tmp_path,
    )
    assert code == 0
    assert "systola: warning: 100.00% of the values of input input_1 saturate" in err
    assert "SaturationWarning" not in err
