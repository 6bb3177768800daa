"""What goes in and what comes out: many inputs, keywords, dictionaries, types, exported programs.

systola run examples/modules/inputs_and_outputs.py:keywords
"""

import dataclasses

import torch
from torch import nn
from torch.nn import functional as F


class _PlusOne(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + 1) * 2


def plus_one():
    """no parameters at all: relu(x + 1) · 2"""
    torch.manual_seed(0)
    return _PlusOne(), torch.randn(4, 8)


class _Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(6, 16)

    def forward(
        self, x: torch.Tensor, y: torch.Tensor, *, scale: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        z = self.first(x) + self.second(y)
        z = z if scale is None else z * scale
        return {"sum": z, "probabilities": z.softmax(-1)}


def keywords():
    """two inputs and a keyword input, a dictionary as the result"""
    torch.manual_seed(0)
    return _Two(), (torch.randn(3, 8), torch.randn(3, 6)), {"scale": torch.rand(3, 16)}


class _Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image, self.words = nn.Conv2d(3, 8, 3), nn.Embedding(20, 8)

    def forward(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        image = F.relu(self.image(batch["image"])).mean((2, 3))
        words = self.words(batch["words"]).sum(1)
        return image * words, [image, words]


def dictionary_input():
    """a dictionary of an image and token ids goes in, nested results come out"""
    torch.manual_seed(0)
    batch = {"image": torch.randn(2, 3, 8, 8), "words": torch.randint(0, 20, (2, 5))}
    return _Nested(), (batch,)


@dataclasses.dataclass
class _Scored:
    scores: torch.Tensor
    best: torch.Tensor


torch.utils._pytree.register_dataclass(_Scored)


class _Scorer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> _Scored:
        scores = self.layer(x)
        return _Scored(scores=scores, best=scores.argmax(-1))


def dataclass_output():
    """a dataclass with scores and the index of the best one"""
    torch.manual_seed(0)
    return _Scorer(), torch.randn(5, 8)


class _Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        return torch.where(keep, self.layer(x), -x).masked_fill(~keep & (x > 1), 0.0)


def boolean_mask():
    """a boolean input: where, masked_fill, comparisons"""
    torch.manual_seed(0)
    return _Masked(), (torch.randn(3, 8), torch.rand(3, 8) > 0.4)


def no_batch():
    """a vector without a batch dimension"""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 4), nn.Tanh()), torch.randn(8)


def _classifier() -> nn.Sequential:
    first = (nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
    return nn.Sequential(*first, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 5)).eval()


def half():
    """a module in float16"""
    torch.manual_seed(0)
    return _classifier().half(), torch.randn(1, 3, 8, 8).half()


def exported_program():
    """an `ExportedProgram` with its own example inputs"""
    torch.manual_seed(0)
    return torch.export.export(_classifier(), (torch.randn(1, 3, 8, 8),))


def exported_module():
    """the module of an `ExportedProgram`"""
    torch.manual_seed(0)
    example = (torch.randn(1, 3, 8, 8),)
    return torch.export.export(_classifier(), example).module(), example


def dynamic_shapes():
    """an `ExportedProgram` with a batch of any size from 1 to 8"""
    torch.manual_seed(0)
    batch = {0: torch.export.Dim("batch", min=1, max=8)}
    return torch.export.export(_classifier(), (torch.randn(2, 3, 8, 8),), dynamic_shapes=(batch,))
