"""Runs a model with one input in ONNX Runtime: MODEL INPUT.npy FOLDER all|none. The outputs become
0.npy, 1.npy ... in FOLDER, in the model's order."""

import sys

import numpy
import onnxruntime

model, source, folder, level = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 2
options.log_severity_level = 3
if level == "none":
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
used = [i.name for i in session.get_inputs()]
initializers = {i.name for i in session.get_overridable_initializers()}
(name,) = [n for n in used if n not in initializers]
value = numpy.load(source)
if next(i.type for i in session.get_inputs() if i.name == name) == "tensor(float16)":
    value = value.astype(numpy.float16)
for i, output in enumerate(session.run(None, {name: value})):
    numpy.save(f"{folder}/{i}.npy", output)
