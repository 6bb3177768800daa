"""Write `tests/golden/paddle_network.onnx`, as Paddle's exporter does, and what Paddle computes.

Paddle needs other versions of packages than this project: it has an environment of its own.

    python -m venv /tmp/paddle
    /tmp/paddle/bin/pip install paddlepaddle==3.3.1 paddle2onnx==2.1.0 packaging setuptools
    /tmp/paddle/bin/python tests/paddle_network.py
"""

from pathlib import Path

import numpy as np
import paddle
from paddle.nn import functional as F

TARGET = Path(__file__).parent / "golden" / "paddle_network"


class Network(paddle.nn.Layer):
    """Convolutions with batch norms, a depthwise one, a sum, pools, linear layers, a softmax."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = paddle.nn.Conv2D(3, 8, 3, padding=1), paddle.nn.BatchNorm2D(8)
        self.deep = paddle.nn.Conv2D(8, 8, 3, padding=1, groups=8)
        self.pool = paddle.nn.MaxPool2D(2)
        self.head, self.tail = paddle.nn.Linear(8, 16), paddle.nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        x = self.pool(x + F.hardswish(self.deep(x)))
        x = F.gelu(self.head(x.mean([2, 3])))
        return F.softmax(self.tail(x), -1)


def main() -> None:
    paddle.seed(0)
    network = Network()
    network.eval()
    spec = paddle.static.InputSpec([1, 3, 16, 16], "float32", "x")
    paddle.onnx.export(network, str(TARGET), input_spec=[spec], opset_version=17)
    x = np.random.default_rng(0).standard_normal((4, 3, 16, 16)).astype(np.float32)
    y = [network(paddle.to_tensor(each[None])).numpy()[0] for each in x]
    np.savez_compressed(TARGET.with_suffix(".npz"), x=x, y=np.stack(y))


if __name__ == "__main__":
    main()
