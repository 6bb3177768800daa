"""The array of `default` as elements: `make prove` runs it, `make test` only smaller ones."""

import pytest
from test_hw_array import run_elements


@pytest.mark.rtl
@pytest.mark.parametrize("weight_rows", [1, 2])
def test_elements_sum_random_folds_in_an_array_of_full_size(tmp_path, weight_rows):
    run_elements(tmp_path, 16, 16, weight_rows)
