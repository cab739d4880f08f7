"""A 3x3 convolution with padding 1 in numpy, three ways: X.npy W.npy FOLDER. Writes blas.npy (im2col
and one matrix product), einsum.npy and taps.npy (nine matrix products added up)."""

import sys

import numpy

x, w = numpy.load(sys.argv[1]), numpy.load(sys.argv[2])
folder = sys.argv[3]
n, c, h, width = x.shape
padded = numpy.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
windows = numpy.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))  # n c h w 3 3
columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * width, -1)
blas = columns @ w.reshape(len(w), -1).T
numpy.save(f"{folder}/blas.npy", numpy.ascontiguousarray(blas.reshape(n, h, width, -1).transpose(0, 3, 1, 2)))
numpy.save(f"{folder}/einsum.npy", numpy.einsum("nchwij,kcij->nkhw", windows, w))
taps = numpy.zeros((n, len(w), h, width), numpy.float32)
for i in range(3):
    for j in range(3):
        taps += numpy.tensordot(w[:, :, i, j], padded[:, :, i : i + h, j : j + width], (1, 1)).transpose(1, 0, 2, 3)
numpy.save(f"{folder}/taps.npy", taps)
