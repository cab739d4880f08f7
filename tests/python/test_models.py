"""The shipped network and its samples are what tests/models/README.md says. Standard library only."""
import ast
import collections
import pathlib
import struct
import unittest

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"


def read_npy(path):
    """(descr, fortran_order, shape, payload) of a version 1 .npy file."""
    data = path.read_bytes()
    if data[:8] != b"\x93NUMPY\x01\x00":
        raise ValueError(f"{path.name}: not a version 1 .npy file")
    (length,) = struct.unpack_from("<H", data, 8)
    header = ast.literal_eval(data[10:10 + length].decode("latin1"))
    return header["descr"], header["fortran_order"], header["shape"], data[10 + length:]


def fields(message):
    """(number, value) of each field of a protobuf message; bytes or int."""

    def varint(at):
        value = shift = 0
        while True:
            byte = message[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return value, at

    at = 0
    while at < len(message):
        tag, at = varint(at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(at)
        else:
            size, at = varint(at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = message[at:at + size], at + size
        yield tag >> 3, value


def parse(message):
    found = collections.defaultdict(list)
    for number, value in fields(message):
        found[number].append(value)
    return found


class Digits(unittest.TestCase):
    def test_network_is_small_and_keeps_its_batch_norms(self):
        data = (MODELS / "digits-resnet.onnx").read_bytes()
        self.assertLess(len(data), 400_000)
        model = parse(data)
        self.assertEqual(model[1], [7], "IR version")
        self.assertEqual([parse(opset)[2] for opset in model[8]], [[13]], "opset")
        graph = parse(model[7][0])
        nodes = [parse(node) for node in graph[1]]
        ops = collections.Counter(node[4][0].decode() for node in nodes)
        self.assertEqual(ops, {"Conv": 13, "BatchNormalization": 13, "Relu": 11, "Add": 4,
                               "MaxPool": 1, "GlobalAveragePool": 1, "Flatten": 1, "Gemm": 1})
        names = [node[3][0].decode() for node in nodes]
        self.assertEqual(len(set(names)), len(names), "node names are unique")
        self.assertTrue(all("." in name for name in names), names)
        self.assertEqual([parse(v)[1][0] for v in graph[11]], [b"image"], "inputs")
        self.assertEqual([parse(v)[1][0] for v in graph[12]], [b"logits"], "outputs")

    def test_images(self):
        descr, fortran, shape, payload = read_npy(MODELS / "digits.images.npy")
        self.assertEqual((descr, fortran, shape), ("<f4", False, (32, 1, 8, 8)))
        values = struct.unpack(f"<{32 * 64}f", payload)
        self.assertTrue(all(0 <= v <= 1 and (16 * v).is_integer() for v in values))

    def test_labels(self):
        descr, fortran, shape, payload = read_npy(MODELS / "digits.labels.npy")
        self.assertEqual((descr, fortran, shape), ("<i8", False, (32,)))
        self.assertEqual(struct.unpack("<32q", payload), tuple(i % 10 for i in range(32)))


if __name__ == "__main__":
    unittest.main()
