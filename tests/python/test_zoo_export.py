"""What `driftc zoo export` writes is accepted by ONNX's checker and run by ONNX Runtime, whose outputs
lie within the project's bound of driftc's float64 reference: max|y - ref| / max|ref| <= 2e-5.
Both come from PyPI (./dev setup puts them into .deps/onnx); without them the test is skipped."""
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRIFTC = pathlib.Path(os.environ.get("DRIFTC_BINARY", ROOT / "build/release/driftc"))
PYTHON = ROOT / ".deps/onnx/bin/python"
MODELS = ["resnet18", "residual-block", "depthwise-block", "lenet", "mlp"]

CHECK = """
import sys
import numpy, onnx, onnxruntime
folder, output = sys.argv[1:]
onnx.checker.check_model(onnx.load(folder + "/m.onnx"), full_check=True)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(folder + "/m.onnx", options, providers=["CPUExecutionProvider"])
(name,) = [i.name for i in session.get_inputs()]
(y,) = session.run([output], {name: numpy.load(folder + "/x.npy")})
reference = numpy.load(f"{folder}/{output}.npy")
assert y.shape == reference.shape, (y.shape, reference.shape)
print(float(numpy.abs(y - reference).max() / numpy.abs(reference).max()))
"""


def shape_of(model):
    listing = subprocess.run([DRIFTC, "zoo"], capture_output=True, text=True, check=True).stdout
    (line,) = [l for l in listing.splitlines() if l.split()[:1] == [f"zoo:{model}"]]
    return [int(n) for n in line.split()[1].strip("[]").split(",")]


@unittest.skipUnless(PYTHON.exists(), "onnx and onnxruntime are not in .deps/onnx: ./dev setup")
class ExportedModels(unittest.TestCase):
    def test_checker_and_runtime_accept_them(self):
        for model in MODELS:
            with self.subTest(model=model), tempfile.TemporaryDirectory() as folder:
                subprocess.run([DRIFTC, "zoo", "export", model, f"{folder}/m.onnx"], check=True,
                               stderr=subprocess.DEVNULL)
                subprocess.run([PYTHON, "-c", "import sys, numpy; numpy.save(sys.argv[1], numpy.random.default_rng(1)"
                                ".standard_normal(eval(sys.argv[2]), dtype=numpy.float32))",
                                f"{folder}/x.npy", str(shape_of(model))], check=True)
                subprocess.run([DRIFTC, "run", f"zoo:{model}", "--arm", "reference", "--out", folder,
                                "--input", f"{folder}/x.npy"], check=True, capture_output=True)
                (output,) = [p.stem for p in pathlib.Path(folder).glob("*.npy") if p.stem != "x"]
                distance = float(subprocess.run([PYTHON, "-c", CHECK, folder, output], check=True,
                                                capture_output=True, text=True).stdout)
                self.assertLessEqual(distance, 2e-5)


if __name__ == "__main__":
    unittest.main()
