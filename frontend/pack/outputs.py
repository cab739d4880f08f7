"""PyTorch's outputs of the packed networks, eager and compiled, for `driftc judge`.

usage: outputs.py PACK OUT [DEVICE]      DEVICE: cuda (default) or cpu; exit 3: no PyTorch, or it has no GPU
"""
import json
import sys


def load(pack, name):
    import numpy
    with open(f"{pack}/torch/{name}.json") as file:
        graph = json.load(file)
    flat = numpy.load(f"{pack}/torch/{name}.weights.npy")
    return graph, flat, numpy.load(f"{pack}/models/{name}.input.npy")


def module(torch, graph, flat, device):
    """The network as a torch.nn.Module: one call per node, in the order of the file."""
    F = torch.nn.functional

    def pad_before(x, pad):  # [top, left, bottom, right]: what is not the same on both sides
        extra = [max(pad[i] - pad[i + 2], 0) for i in (0, 1)], [max(pad[i + 2] - pad[i], 0) for i in (0, 1)]
        if any(extra[0]) or any(extra[1]):
            x = F.pad(x, (extra[0][1], extra[1][1], extra[0][0], extra[1][0]))
        return x, [min(pad[i], pad[i + 2]) for i in (0, 1)]

    def conv2d(a, shape, x, w, bias=None):
        x, pad = pad_before(x, a["pad"])
        return F.conv2d(x, w, bias, a["stride"], pad, a["dilation"], a["groups"])

    def batch_norm(a, shape, x, scale, shift, mean, variance):
        return F.batch_norm(x, mean, variance, scale, shift, False, 0.0, a["epsilon"])

    def slices(a, shape, x):
        for axis, (start, step, size) in enumerate(zip(a["starts"], a["steps"], a["sizes"])):
            x = torch.index_select(x, axis, torch.arange(size, device=x.device) * step + start)
        return x

    def pad(a, shape, x):
        pairs = [p for pair in zip(a["before"], a["after"]) for p in [pair]]
        return F.pad(x, [n for pair in reversed(pairs) for n in pair], value=float(a.get("value", 0)))

    def gemm(a, shape, x, w, bias=None):
        x = x.t() if a["trans_a"] else x
        w = w.t() if a["trans_b"] else w
        y = a["alpha"] * (x @ w) if a["alpha"] != 1 else x @ w
        return y if bias is None else y + (bias if a["beta"] == 1 else a["beta"] * bias)

    ops = {
        "conv2d": conv2d, "batch_norm": batch_norm, "slice": slices, "pad": pad, "gemm": gemm,
        "relu": lambda a, s, x: F.relu(x), "exp": lambda a, s, x: torch.exp(x),
        "add": lambda a, s, x, y: x + y, "sub": lambda a, s, x, y: x - y,
        "mul": lambda a, s, x, y: x * y, "div": lambda a, s, x, y: x / y,
        "global_avg_pool": lambda a, s, x: F.adaptive_avg_pool2d(x, 1),
        "flatten": lambda a, s, x: x.reshape(s), "reshape": lambda a, s, x: x.reshape(s),
        "transpose": lambda a, s, x: x.permute(a["perm"]),
        "concat": lambda a, s, *x: torch.cat(x, a["axis"]),
        "softmax": lambda a, s, x: torch.softmax(x, a["axis"]),
    }

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.constants = {}
            for index, (name, c) in enumerate(graph["constants"].items()):
                count = 1
                for extent in c["shape"]:
                    count *= extent
                tensor = torch.from_numpy(flat[c["offset"]:c["offset"] + count].copy())
                self.register_buffer(f"constant{index}", tensor.reshape(c["shape"]).to(device))
                self.constants[name] = f"constant{index}"

        def forward(self, x):
            values = {graph["inputs"][0]: x}
            values.update({name: getattr(self, held) for name, held in self.constants.items()})
            for node in graph["nodes"]:
                operands = [values[name] for name in node["operands"]]
                values[node["name"]] = ops[node["op"]](node["attributes"], node["shape"], *operands)
            return tuple(values[name] for name in graph["outputs"])

    return Network().eval()


def main():
    pack, out = sys.argv[1:3]
    device = sys.argv[3] if len(sys.argv) > 3 else "cuda"
    try:
        import numpy
        import torch
    except ImportError:
        return 3
    if device == "cuda" and not torch.cuda.is_available():
        return 3
    for name in ("resnet20-cifar10", "rfb-320"):
        try:
            graph, flat, data = load(pack, name)
        except FileNotFoundError:
            continue
        network = module(torch, graph, flat, device)
        x = torch.from_numpy(data).to(device)
        with torch.no_grad():
            arms = {"eager": network(x), "compiled": torch.compile(network)(x)}
        for arm, results in arms.items():
            for output, result in zip(graph["outputs"], results):
                numpy.save(f"{out}/torch-{name}-{arm}-{output}.npy", result.float().cpu().numpy())
    cudnn = f", cuDNN {torch.backends.cudnn.version()}" if device == "cuda" else ""
    print(f"PyTorch {torch.__version__}{cudnn}", file=sys.stderr)
    return 0


sys.exit(main())
