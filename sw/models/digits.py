"""The network `digits`: two convolutions, pools and a linear layer on real handwritten digits.

Data: scikit-learn's 1,797 8×8 images, 1,437 to train and 360 to test, split with a fixed seed.
Training takes seconds on one thread, always gives the same weights, and is cached.
"""

import hashlib
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sw.models.prepared import Prepared
from sw.runtime.simulator.cache import cache_dir

SEED = 2026
TEST_IMAGES = 360
EPOCHS = 20
BATCH = 64
CALIBRATION_IMAGES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitsData:
    """Images are float32 [n,1,8,8] in 0…1, labels int64 [n]."""

    train_images: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.float32]
    test_labels: NDArray[np.int64]


class DigitsNet(nn.Module):
    """8×8 grey image to ten logits; 16 and 32 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Linear(32 * 4 * 4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.classifier(torch.flatten(self.features(x), 1))
        return result


def load_data() -> DigitsData:
    """The fixed split."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=TEST_IMAGES, random_state=SEED, stratify=labels
    )
    return DigitsData(
        train_images=train_x, train_labels=train_y, test_images=test_x, test_labels=test_y
    )


def trained(data: DigitsData) -> DigitsNet:
    """The network in inference mode: from the cache, or trained (seconds) and cached."""
    with _deterministic():
        net = DigitsNet().eval()
    path = weights_path()
    try:
        with np.load(path) as stored:
            net.load_state_dict({k: torch.from_numpy(stored[k]) for k in stored.files})
        return net
    except (OSError, ValueError, KeyError, RuntimeError, EOFError, zipfile.BadZipFile):
        pass  # absent, cut off or of another network: train it again
    train(net, data)
    save_weights(net, path)
    return net.eval()


def prepared(_seed: int) -> Prepared:
    """The trained network; the first 256 training images calibrate it. The seed is `SEED`."""
    data = load_data()
    return Prepared(
        module=trained(data),
        calibration=data.train_images[:CALIBRATION_IMAGES],
        test=data.test_images,
        labels=data.test_labels,
        data="scikit-learn's handwritten digits",
        weights=f"trained for {EPOCHS} epochs",
    )


def weights_path() -> Path:
    """Where trained weights are cached: named by this file's contents and torch's version."""
    key = hashlib.sha256(Path(__file__).read_bytes() + torch.__version__.encode()).hexdigest()
    return cache_dir() / "models" / f"digits-{key[:16]}.npz"


def save_weights(net: nn.Module, path: Path) -> None:
    """Write atomically; a cache that cannot be written only costs the next run its training."""
    arrays: dict[str, Any] = {k: v.numpy() for k, v in net.state_dict().items()}
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as out:
            np.savez(out, **arrays)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)


def train(net: DigitsNet, data: DigitsData) -> None:
    """Adam on the training images, with shifts by up to one pixel; deterministic."""
    with _deterministic():
        for layer in net.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear | nn.BatchNorm2d):
                layer.reset_parameters()
        images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
        optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
        steps = EPOCHS * -(-len(images) // BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=steps)
        net.train()
        for _ in range(EPOCHS):
            for picks in torch.randperm(len(images)).split(BATCH):
                shift = torch.randint(-1, 2, (2,)).tolist()
                batch = torch.roll(nn.functional.pad(images[picks], (1, 1, 1, 1)), shift, (2, 3))
                logits = net(batch[:, :, 1:-1, 1:-1])
                optimizer.zero_grad()
                nn.functional.cross_entropy(logits, labels[picks]).backward()
                optimizer.step()
                schedule.step()
        net.eval()


@contextmanager
def _deterministic() -> Iterator[None]:
    """One thread and a seed of our own; the caller's generator and thread count come back."""
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(state)
