"""A selective state-space model: its state is updated step by step."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sw.models.weights import seeded
from sw.models.wide.common import WideNet, token_net


class _Selective(nn.Module):
    """Gated block: causal depthwise convolution, then a scan whose steps depend on the input."""

    def __init__(self, size: int, states: int) -> None:
        super().__init__()
        inner, self.states = 2 * size, states
        self.norm = nn.LayerNorm(size)
        self.enter, self.leave = nn.Linear(size, 2 * inner), nn.Linear(inner, size)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner)
        self.select, self.rate = nn.Linear(inner, 2 * states + 8), nn.Linear(8, inner)
        self.decay = nn.Parameter(torch.log(torch.arange(1, states + 1).float()).repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))

    def forward(self, x: Tensor) -> Tensor:
        y, gate = self.enter(self.norm(x)).chunk(2, -1)
        y = F.silu(self.conv(F.pad(y.transpose(1, 2), (3, 0)))).transpose(1, 2)
        return x + self.leave(self._scan(y) * F.silu(gate))

    def _scan(self, y: Tensor) -> Tensor:
        rank, enter, leave = self.select(y).split([8, self.states, self.states], -1)
        rate = F.softplus(self.rate(rank))
        kept = torch.exp(rate[..., None] * -torch.exp(self.decay))
        new = (rate * y)[..., None] * enter[:, :, None]
        state, found = torch.zeros_like(new[:, 0]), []
        for step in range(y.shape[1]):
            state = kept[:, step] * state + new[:, step]
            found.append((state * leave[:, step, None]).sum(-1))
        return torch.stack(found, 1) + self.skip * y


class _Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 64)
        self.body = nn.Sequential(_Selective(64, 8), _Selective(64, 8))
        self.norm, self.out = nn.LayerNorm(64), nn.Linear(64, 1000)

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self.out(self.norm(self.body(self.embed(ids))))
        return found


def state_space(seed: int) -> WideNet:
    with seeded(seed):
        module = _Language()
    return token_net(module, (1, 32), vocabulary=1000, seed=seed)
