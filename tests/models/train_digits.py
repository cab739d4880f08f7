#!/usr/bin/env python3
"""Trains the small residual CNN that ships with driftc and writes it as ONNX.

Everything is in this file: layers with their gradients in plain numpy, the training loop, the ONNX
writer and the check of the written file with ONNX Runtime. See README.md beside it for the command.

Activations are NHWC here because one matmul per convolution is then simple; weights are kept in
ONNX's OIHW. A layer's forward() remembers what its backward() needs.
"""
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread: one summation order in training

import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

SEED = 20240
EPOCHS = 40
BATCH = 32
HELD_OUT = 360  # of 1797 images: 20 %
SAMPLES = 32
BN_EPSILON = 1e-5


class Parameter:
    def __init__(self, value, decay):
        self.value = value.astype(np.float32)
        self.grad = np.zeros_like(self.value)
        self.velocity = np.zeros_like(self.value)
        self.decay = decay


class Conv:
    def __init__(self, rng, cin, cout, size, stride=1):
        self.size, self.stride, self.pad = size, stride, size // 2
        fan_in = cin * size * size
        self.weight = Parameter(
            rng.standard_normal((cout, cin, size, size)) * np.sqrt(2.0 / fan_in), decay=True)

    def parameters(self):
        return [self.weight]

    def window(self, x, dy, dx, ho, wo):
        s = self.stride
        return x[:, dy:dy + s * (ho - 1) + 1:s, dx:dx + s * (wo - 1) + 1:s, :]

    def forward(self, x, training):
        p, k = self.pad, self.size
        padded = np.pad(x, ((0, 0), (p, p), (p, p), (0, 0)))
        n, h, w, c = padded.shape
        ho, wo = (h - k) // self.stride + 1, (w - k) // self.stride + 1
        columns = np.concatenate(
            [self.window(padded, dy, dx, ho, wo) for dy in range(k) for dx in range(k)], axis=3)
        self.columns = columns.reshape(n * ho * wo, k * k * c)
        self.padded_shape, self.out_hw = padded.shape, (ho, wo)
        matrix = self.weight.value.transpose(2, 3, 1, 0).reshape(k * k * c, -1)
        return (self.columns @ matrix).reshape(n, ho, wo, -1)

    def backward(self, grad):
        k, p = self.size, self.pad
        cout, cin = self.weight.value.shape[:2]
        flat = grad.reshape(-1, cout)
        self.weight.grad = (self.columns.T @ flat).reshape(k, k, cin, cout).transpose(3, 2, 0, 1)
        matrix = self.weight.value.transpose(2, 3, 1, 0).reshape(k * k * cin, cout)
        ho, wo = self.out_hw
        columns = (flat @ matrix.T).reshape(grad.shape[0], ho, wo, k * k, cin)
        out = np.zeros(self.padded_shape, np.float32)
        for dy in range(k):
            for dx in range(k):
                self.window(out, dy, dx, ho, wo)[...] += columns[:, :, :, dy * k + dx, :]
        return out[:, p:out.shape[1] - p, p:out.shape[2] - p, :]

    def emit(self, g, x, name):
        g.weight(f"{name}.weight", self.weight.value)
        return g.node("Conv", [x, f"{name}.weight"], name, kernel_shape=[self.size] * 2,
                      strides=[self.stride] * 2, pads=[self.pad] * 4, dilations=[1, 1], group=1)


class BatchNorm:
    def __init__(self, channels):
        self.scale = Parameter(np.ones(channels), decay=False)
        self.bias = Parameter(np.zeros(channels), decay=False)
        self.mean = np.zeros(channels, np.float32)
        self.var = np.ones(channels, np.float32)

    def parameters(self):
        return [self.scale, self.bias]

    def forward(self, x, training):
        if training:
            mean, var = x.mean(axis=(0, 1, 2)), x.var(axis=(0, 1, 2))
            count = x.size // x.shape[3]
            self.mean += np.float32(0.1) * (mean - self.mean)
            self.var += np.float32(0.1) * (var * np.float32(count / (count - 1)) - self.var)
        else:
            mean, var = self.mean, self.var
        self.inv = (1 / np.sqrt(var + np.float32(BN_EPSILON))).astype(np.float32)
        self.normal = (x - mean) * self.inv
        return self.normal * self.scale.value + self.bias.value

    def backward(self, grad):
        axes = (0, 1, 2)
        self.scale.grad = (grad * self.normal).sum(axis=axes)
        self.bias.grad = grad.sum(axis=axes)
        count = np.float32(grad.size // grad.shape[3])
        centred = grad - self.bias.grad / count - self.normal * (self.scale.grad / count)
        return centred * (self.scale.value * self.inv)

    def emit(self, g, x, name):
        g.weight(f"{name}.scale", self.scale.value)
        g.weight(f"{name}.bias", self.bias.value)
        g.weight(f"{name}.mean", self.mean)
        g.weight(f"{name}.var", self.var)
        inputs = [x] + [f"{name}.{part}" for part in ("scale", "bias", "mean", "var")]
        return g.node("BatchNormalization", inputs, name, epsilon=BN_EPSILON)


class Relu:
    def parameters(self):
        return []

    def forward(self, x, training):
        self.mask = x > 0
        return x * self.mask

    def backward(self, grad):
        return grad * self.mask

    def emit(self, g, x, name):
        return g.node("Relu", [x], name)


class MaxPool3x3:
    """3x3, stride 1, pad 1: keeps the 8x8 size; the first maximum takes the gradient."""

    def parameters(self):
        return []

    def forward(self, x, training):
        n, h, w, c = x.shape
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
        windows = np.stack([padded[:, dy:dy + h, dx:dx + w, :]
                            for dy in range(3) for dx in range(3)])
        self.chosen = windows.argmax(axis=0)
        return windows.max(axis=0)

    def backward(self, grad):
        n, h, w, c = grad.shape
        out = np.zeros((n, h + 2, w + 2, c), np.float32)
        for dy in range(3):
            for dx in range(3):
                out[:, dy:dy + h, dx:dx + w, :] += grad * (self.chosen == dy * 3 + dx)
        return out[:, 1:-1, 1:-1, :]

    def emit(self, g, x, name):
        return g.node("MaxPool", [x], name, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)


class Sequence:
    def __init__(self, **layers):
        self.layers = layers

    def parameters(self):
        return [p for layer in self.layers.values() for p in layer.parameters()]

    def forward(self, x, training):
        for layer in self.layers.values():
            x = layer.forward(x, training)
        return x

    def backward(self, grad):
        for layer in reversed(self.layers.values()):
            grad = layer.backward(grad)
        return grad

    def emit(self, g, x, name):
        for part, layer in self.layers.items():
            x = layer.emit(g, x, f"{name}.{part}" if name else part)
        return x


class Residual:
    """relu(body(x) + shortcut(x)); no shortcut layer means the identity."""

    def __init__(self, body, shortcut=None):
        self.body, self.shortcut, self.relu = body, shortcut, Relu()

    def parameters(self):
        return self.body.parameters() + (self.shortcut.parameters() if self.shortcut else [])

    def forward(self, x, training):
        side = self.shortcut.forward(x, training) if self.shortcut else x
        return self.relu.forward(self.body.forward(x, training) + side, training)

    def backward(self, grad):
        grad = self.relu.backward(grad)
        side = self.shortcut.backward(grad) if self.shortcut else grad
        return self.body.backward(grad) + side

    def emit(self, g, x, name):
        side = self.shortcut.emit(g, x, f"{name}.shortcut") if self.shortcut else x
        body = self.body.emit(g, x, name)
        return self.relu.emit(g, g.node("Add", [body, side], f"{name}.add"), f"{name}.relu")


class Head:
    """Global average pool, flatten, linear."""

    def __init__(self, rng, channels, classes):
        self.weight = Parameter(
            rng.standard_normal((classes, channels)) * np.sqrt(1.0 / channels), decay=True)
        self.bias = Parameter(np.zeros(classes), decay=False)

    def parameters(self):
        return [self.weight, self.bias]

    def forward(self, x, training):
        self.shape = x.shape
        self.pooled = x.mean(axis=(1, 2))
        return self.pooled @ self.weight.value.T + self.bias.value

    def backward(self, grad):
        self.weight.grad = grad.T @ self.pooled
        self.bias.grad = grad.sum(axis=0)
        n, h, w, c = self.shape
        pooled = (grad @ self.weight.value) / np.float32(h * w)
        return np.broadcast_to(pooled[:, None, None, :], self.shape)

    def emit(self, g, x, name):
        g.weight(f"{name}.linear.weight", self.weight.value)
        g.weight(f"{name}.linear.bias", self.bias.value)
        x = g.node("GlobalAveragePool", [x], f"{name}.pool")
        x = g.node("Flatten", [x], f"{name}.flatten", axis=1)
        return g.node("Gemm", [x, f"{name}.linear.weight", f"{name}.linear.bias"],
                      f"{name}.linear", output="logits", transB=1)


def conv_bn(rng, cin, cout, size, stride=1):
    return Sequence(conv=Conv(rng, cin, cout, size, stride), bn=BatchNorm(cout))


def basic(rng, cin, cout, stride=1):
    body = Sequence(conv1=Conv(rng, cin, cout, 3, stride), bn1=BatchNorm(cout), relu1=Relu(),
                    conv2=Conv(rng, cout, cout, 3), bn2=BatchNorm(cout))
    return Residual(body, conv_bn(rng, cin, cout, 1, stride) if (cin, stride) != (cout, 1) else None)


def bottleneck(rng, cin, middle, cout):
    body = Sequence(conv1=Conv(rng, cin, middle, 1), bn1=BatchNorm(middle), relu1=Relu(),
                    conv2=Conv(rng, middle, middle, 3), bn2=BatchNorm(middle), relu2=Relu(),
                    conv3=Conv(rng, middle, cout, 1), bn3=BatchNorm(cout))
    return Residual(body, conv_bn(rng, cin, cout, 1) if cin != cout else None)


def build(rng):
    return Sequence(
        stem=Sequence(conv=Conv(rng, 1, 16, 3), bn=BatchNorm(16), relu=Relu(), pool=MaxPool3x3()),
        block1=basic(rng, 16, 16),
        block2=basic(rng, 16, 32, stride=2),
        block3=bottleneck(rng, 32, 32, 64),
        block4=bottleneck(rng, 64, 32, 64),
        head=Head(rng, 64, 10))


def shifted(rng, images):
    """Each image moved by -1, 0 or 1 pixel in both directions, zeros moving in."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    moves = rng.integers(0, 3, size=(len(images), 2))
    return np.stack([padded[i, y:y + 8, x:x + 8, :] for i, (y, x) in enumerate(moves)])


def train(net, rng, images, labels):
    parameters = net.parameters()
    steps, step = EPOCHS * (len(images) // BATCH), 0
    for epoch in range(EPOCHS):
        order, total = rng.permutation(len(images)), 0.0
        for start in range(0, len(images) - BATCH + 1, BATCH):
            pick = order[start:start + BATCH]
            logits = net.forward(shifted(rng, images[pick]), training=True)
            odds = np.exp(logits - logits.max(axis=1, keepdims=True))
            odds /= odds.sum(axis=1, keepdims=True)
            total += -np.log(odds[np.arange(BATCH), labels[pick]]).sum()
            odds[np.arange(BATCH), labels[pick]] -= 1
            net.backward((odds / BATCH).astype(np.float32))
            rate = 0.05 * 0.5 * (1 + np.cos(np.pi * step / steps))
            for p in parameters:
                grad = p.grad + 5e-4 * p.value if p.decay else p.grad
                p.velocity = (0.9 * p.velocity + grad).astype(np.float32)
                p.value = (p.value - rate * p.velocity).astype(np.float32)
            step += 1
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1:3d}: training loss {total / len(images):.4f}", flush=True)


def sample(labels):
    """Indices of SAMPLES images: the first of each digit from 0 to 9, the second of each, ..."""
    rank = np.array([(labels[:i] == label).sum() for i, label in enumerate(labels)])
    return np.lexsort((labels, rank))[:SAMPLES]


class OnnxGraph:
    def __init__(self):
        self.nodes, self.weights = [], []

    def weight(self, name, value):
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value, "<f4"), name))

    def node(self, op, inputs, name, output=None, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output or name], name=name, **attributes))
        return output or name

    def model(self):
        graph = helper.make_graph(
            self.nodes, "digits_resnet",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])], self.weights)
        model = helper.make_model(graph, producer_name="driftc tests/models/train_digits.py",
                                  opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 7
        onnx.checker.check_model(model, full_check=True)
        return model


def onnxruntime_logits(path, images):
    try:
        import onnxruntime
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["logits"], {"image": images})[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent,
                        help="folder to write to (default: beside this script)")
    out = parser.parse_args().out

    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int64)
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(images))
    held, kept = order[:HELD_OUT], order[HELD_OUT:]

    net = build(rng)
    print(f"{sum(p.value.size for p in net.parameters())} parameters, "
          f"{len(kept)} training images, {len(held)} held out")
    train(net, rng, images[kept], labels[kept])
    logits = net.forward(images[held], training=False)
    correct = int((logits.argmax(axis=1) == labels[held]).sum())
    print(f"held out, numpy: {correct} of {len(held)} ({100 * correct / len(held):.2f} %)")

    graph = OnnxGraph()
    net.emit(graph, "image", "")
    path = out / "digits-resnet.onnx"
    path.write_bytes(graph.model().SerializeToString(deterministic=True))
    nchw = np.ascontiguousarray(images[held].transpose(0, 3, 1, 2))
    shown = sample(labels[held])
    np.save(out / "digits.images.npy", nchw[shown])
    np.save(out / "digits.labels.npy", labels[held][shown])
    print(f"wrote {path} ({path.stat().st_size} bytes)")

    checked = onnxruntime_logits(path, nchw)
    if checked is None:
        print("held out, ONNX Runtime: not installed, not checked")
        return
    right = checked.argmax(axis=1) == labels[held]
    print(f"held out, ONNX Runtime: {right.sum()} of {len(held)} ({100 * right.mean():.2f} %); "
          f"the {SAMPLES} samples: {right[shown].sum()}; "
          f"largest difference to numpy {np.abs(checked - logits).max():.2g}")
    if right.mean() < 0.97:
        raise SystemExit("below 97 %: not good enough to ship")


if __name__ == "__main__":
    main()
