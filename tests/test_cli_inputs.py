"""Inputs of a run: what is no array is refused by name, before any device is opened."""

import re

import pytest
from cli_helpers import copy_image

from sw.runtime.session import OptionError, check_inputs


@pytest.mark.parametrize("value", [[1, 2], 3, None, "x"])
def test_input_that_is_no_array_is_refused(value):
    message = f"input x: {type(value).__name__} given, the program takes a NumPy array of int8[64]"
    with pytest.raises(OptionError, match=f"^{re.escape(message)}$"):
        check_inputs(copy_image(), {"x": value})
