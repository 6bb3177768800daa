"""Which dimensions of an exported program are symbols."""

import re

import torch
from torch import nn
from torch.export import Dim, export

from sw.compiler.frontend.dynamic_shapes import dynamic_dims


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x, y):
        return self.layer(x) + y.sum()


INPUTS = (torch.randn(3, 8), torch.randn(5, 7))


def test_fixed_shapes_have_no_dynamic_dimension():
    assert dynamic_dims(export(Model(), INPUTS)) == []


def test_each_symbol_is_named_with_its_input_and_its_range():
    shapes = {"x": {0: Dim("batch", min=2, max=64)}, "y": {0: Dim.DYNAMIC, 1: Dim.AUTO}}
    found = dynamic_dims(export(Model(), INPUTS, dynamic_shapes=shapes))
    assert len(found) == 3
    assert re.fullmatch(r"input 'x': dimension 0 is '\w+' \(2 to 64\)", found[0])
    assert re.fullmatch(r"input 'y': dimension 0 is '\w+' \(from \d+\)", found[1])
    assert found[2].startswith("input 'y': dimension 1 is ")


def test_sizes_that_follow_from_others_are_named_too():
    batch = Dim("batch", max=16)

    class Sum(nn.Module):
        def forward(self, a, b):
            return torch.cat([a, b])

    shapes = {"a": {0: batch}, "b": {0: 2 * batch}}
    program = export(Sum(), (torch.randn(3, 2), torch.randn(6, 2)), dynamic_shapes=shapes)
    assert [text.split(" is ")[0] for text in dynamic_dims(program)] == [
        "input 'a': dimension 0",
        "input 'b': dimension 0",
    ]


def test_numbers_of_the_caller_are_named():
    class Scaled(nn.Module):
        def forward(self, x, count):
            return x * count

    program = export(Scaled(), (torch.randn(2, 2), 3), dynamic_shapes=(None, Dim.DYNAMIC))
    (text,) = dynamic_dims(program)
    assert re.fullmatch(r"input 'count': is a number of the caller, '\w+'", text)
