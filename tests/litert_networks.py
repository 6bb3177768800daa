"""Small int8 networks as LiteRT files: layers one after the other, unit variance between them."""

import numpy as np
from litert_files import LiteRtFile, options


class Network:
    """A file that grows by layers; `at` is the tensor that the next one reads."""

    def __init__(self, shape, seed=0, dtype="int8"):
        self.rng, self.file = np.random.default_rng(seed), LiteRtFile()
        zero = -2 if dtype == "int8" else 126
        self.at = self.file.input(shape, dtype, 0.02, zero, name="image")
        self.grids, self.shapes, self.dtype = {self.at: (0.02, zero)}, {self.at: shape}, dtype

    def result(self, shape, scale, zero):
        zero = zero if self.dtype == "int8" else zero + 128
        self.at = self.file.tensor(shape, self.dtype, scale, zero)
        self.grids[self.at], self.shapes[self.at] = (scale, zero), shape
        return self.at

    def activation(self, shape, activation):
        """Of unit variance before the activation: −4 to 4, or 0 to 4."""
        return self.result(shape, *((4 / 255, -128) if activation else (8 / 255, 1)))

    def weights(self, shape, fan_in, axis):
        """int8 with a scale for each channel, or uint8 with one and a zero point; bias: int32."""
        count = shape[axis]
        if self.dtype == "uint8":
            return self.weights_of_one_scale(shape, fan_in, count)
        scales = np.float32(np.sqrt(3 / fan_in) / 127 * self.rng.uniform(0.5, 1.5, count))
        steps = self.rng.integers(-127, 128, shape).astype(np.int8)
        w = self.file.constant(steps, scales, 0, axis)
        both = np.float32(self.grids[self.at][0]) * scales
        bias = np.rint(self.rng.uniform(-0.3, 0.3, count) / both).astype(np.int32)
        return w, self.file.constant(bias, both, 0)

    def weights_of_one_scale(self, shape, fan_in, count):
        """As old quantized models have them; int8 for int8 models."""
        scale, is_old = np.float32(np.sqrt(3 / fan_in) / 127), self.dtype == "uint8"
        low, high, zero = (0, 256, 120) if is_old else (-127, 128, 0)
        steps = self.rng.integers(low, high, shape).astype(self.dtype)
        both = np.float32(self.grids[self.at][0]) * scale
        bias = np.rint(self.rng.uniform(-0.3, 0.3, count) / both).astype(np.int32)
        return self.file.constant(steps, scale, zero), self.file.constant(bias, both, 0)

    def conv(self, channels, kernel=3, stride=1, activation=3, padding=0):
        n, h, width, c = self.shapes[self.at]
        made = options("Conv2D", padding=padding, strideH=stride, strideW=stride,
                       fusedActivationFunction=activation)  # fmt: skip
        parts = self.weights((channels, kernel, kernel, c), kernel * kernel * c, 0)
        reads = [self.at, *parts]
        less = (kernel - 1) * padding  # 1: VALID
        shape = (n, -(-(h - less) // stride), -(-(width - less) // stride), channels)
        self.file.operator("CONV_2D", reads, [self.activation(shape, activation)], made)
        return self

    def depthwise(self, stride=1, activation=3):
        n, h, width, c = self.shapes[self.at]
        made = options("DepthwiseConv2D", padding=0, strideH=stride, strideW=stride,
                       depthMultiplier=1, fusedActivationFunction=activation)  # fmt: skip
        reads = [self.at, *self.weights((1, 3, 3, c), 9, 3)]
        shape = (n, -(-h // stride), -(-width // stride), c)
        kind = "DEPTHWISE_CONV_2D"
        self.file.operator(kind, reads, [self.activation(shape, activation)], made)
        return self

    def add(self, other, activation=0):
        reads, shape = [other, self.at], self.shapes[self.at]
        made = options("Add", fusedActivationFunction=activation)
        self.file.operator("ADD", reads, [self.activation(shape, activation)], made)
        return self

    def max_pool(self):
        (n, h, width, c), reads = self.shapes[self.at], [self.at]
        grid = self.grids[self.at]
        made = options("Pool2D", padding=1, strideH=2, strideW=2, filterHeight=2, filterWidth=2)
        result = self.result((n, h // 2, width // 2, c), *grid)
        self.file.operator("MAX_POOL_2D", reads, [result], made)
        return self

    def mean(self):
        (n, _, _, c), reads = self.shapes[self.at], [self.at, self.file.ints(1, 2)]
        result = self.result((n, c), 0.008, -100)
        self.file.operator("MEAN", reads, [result], options("Reducer", keepDims=False))
        return self

    def pad(self):
        """One row and column behind, as Keras puts it in front of strides."""
        (n, h, width, c), grid = self.shapes[self.at], self.grids[self.at]
        pads = np.array([[0, 0], [0, 1], [0, 1], [0, 0]], np.int32)
        reads = [self.at, self.file.constant(pads)]
        result = self.result((n, h + 1, width + 1, c), *grid)
        self.file.operator("PAD", reads, [result], options("Pad"))
        return self

    def concatenate(self, other):
        n, h, width, c = self.shapes[self.at]
        reads, both = [other, self.at], c + self.shapes[other][3]
        result = self.result((n, h, width, both), *self.grids[self.at])
        self.file.operator("CONCATENATION", reads, [result], options("Concatenation", axis=3))
        return self

    def excite(self):
        """Channels times a logistic function of their means."""
        (n, h, width, c), image, grid = self.shapes[self.at], self.at, self.grids[self.at]
        reads = [image, self.file.ints(1, 2)]
        result = self.result((n, 1, 1, c), *grid)
        self.file.operator("MEAN", reads, [result], options("Reducer", keepDims=True))
        reads = [self.conv(c, 1, activation=0).at]
        weights = self.result((n, 1, 1, c), 1 / 256, -128)
        self.file.operator("LOGISTIC", reads, [weights])
        result = self.result((n, h, width, c), 3 / 255, -128)
        self.file.operator("MUL", [image, weights], [result], options("Mul"))
        return self

    def flatten(self):
        shape, reads = self.shapes[self.at], [self.at]
        size = int(np.prod(shape[1:]))
        reads.append(self.file.ints(-1, size))
        result = self.result((shape[0], size), *self.grids[self.at])
        self.file.operator("RESHAPE", reads, [result], options("Reshape", newShape=[-1, size]))
        return self

    def dense(self, features):
        n, size = self.shapes[self.at]
        reads = [self.at, *self.weights_of_one_scale((features, size), size, features)]
        self.file.operator(
            "FULLY_CONNECTED", reads, [self.result((n, features), 4 / 255, 5)],
            options("FullyConnected"),
        )  # fmt: skip
        return self

    def softmax(self):
        reads, shape = [self.at], self.shapes[self.at]
        result = self.result(shape, 1 / 256, -128)
        self.file.operator("SOFTMAX", reads, [result], options("Softmax", beta=1.0))
        return self

    def data(self):
        self.file.output(self.at)
        return self.file.data()


def cnn():
    """Convolutions, a pool, and two ways to lie in memory for the flatten."""
    net = Network((1, 16, 16, 3))
    return net.conv(16).conv(24, stride=2).max_pool().conv(32, padding=1).flatten().dense(10).data()


def residual(dtype="int8"):
    """Inverted residuals, as MobileNet has them."""
    net = Network((1, 16, 16, 3), seed=1, dtype=dtype).conv(16, stride=2)
    for _ in range(2):
        start = net.at
        net.conv(48, 1).depthwise().conv(16, 1, activation=0).add(start)
    return net.conv(32, 1).depthwise(stride=2).mean().dense(12).softmax().data()


def excited():
    """Padding apart from its convolution, a concatenation, channels that are weighted."""
    net = Network((1, 16, 16, 3), seed=2).conv(8).pad().conv(16, stride=2, padding=1)
    first = net.at
    return net.conv(16, 1).concatenate(first).excite().flatten().dense(10).data()


def with_float_ends():
    """int8 between a QUANTIZE and a DEQUANTIZE, as Keras models are mostly converted."""
    net = Network((1, 16, 16, 3), seed=3).conv(8).conv(8, 1).mean().dense(10)
    file, last = net.file, net.at
    image, result = file.tensor((1, 16, 16, 3)), file.tensor((1, 10))
    file.operator("QUANTIZE", [image], file.graph.inputs, options("Quantize"))
    file.graph.operators.insert(0, file.graph.operators.pop())
    file.operator("DEQUANTIZE", [last], [result], options("Dequantize"))
    file.graph.inputs = [image]
    file.output(result)
    return file.data()
