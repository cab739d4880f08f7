"""Runs a model with one input and one output in ONNX Runtime: MODEL INPUT.npy OUTPUT.npy all|none."""

import sys

import numpy
import onnxruntime

model, source, target, level = sys.argv[1:]
options = onnxruntime.SessionOptions()
if level == "none":
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
numpy.save(target, session.run(None, {session.get_inputs()[0].name: numpy.load(source)})[0])
