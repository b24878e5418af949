# SPDX-License-Identifier: MIT
"""PyTorch's model of a Llama's weights: a compiled layer, all steps in one CUDA graph."""

import json
import mmap
import statistics
import time


class Weights:
    """Tensors of a folder in Hugging Face's form, on the card."""

    def __init__(self, folder, device):
        self.device = device
        file = open(folder / "model.safetensors", "rb")
        self.view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self.begin = 8 + int.from_bytes(self.view[:8], "little")
        self.header = json.loads(self.view[8 : self.begin])

    def __call__(self, name):
        import torch

        entry = self.header[name]
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(self.view, dtype=torch.bfloat16, count=(end - begin) // 2, offset=self.begin + begin)
        return flat.view(entry["shape"]).to(self.device)


class Model:
    """Layers that take and return a residual and what is not yet added to it, so that both are added in one kernel."""

    def __init__(self, folder, shape, layers, context, sequences):
        import torch

        self.shape, self.context, self.sequences = shape, context, sequences
        device = self.device = "cuda" if torch.cuda.is_available() else "cpu"
        weight = Weights(folder, device)
        self.embedding = weight("model.embed_tokens.weight")
        self.last = weight("lm_head.weight")
        self.layers = []
        for i in range(layers):
            at = f"model.layers.{i}."
            qkv = torch.cat([weight(at + f"self_attn.{x}_proj.weight") for x in "qkv"])
            gates = torch.cat([weight(at + f"mlp.{x}_proj.weight") for x in ("gate", "up")])
            own = [qkv, weight(at + "self_attn.o_proj.weight"), gates, weight(at + "mlp.down_proj.weight")]
            size = (sequences, shape["kv_heads"], context, shape["head"])
            own += [torch.zeros(size, dtype=torch.bfloat16, device=device) for _ in "kv"]
            self.layers.append(own)
        head = shape["head"]
        angles = 500000.0 ** (-torch.arange(0, head, 2, device=device).float() / head)
        angles = torch.arange(context, device=device).float()[:, None] * angles
        self.cosines = angles.cos().repeat(1, 2)
        self.sines = angles.sin().repeat(1, 2)
        self.places = torch.arange(context, device=device)
        self.rows = torch.arange(sequences, device=device)

    def norm(self, x):
        import torch

        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)

    def rotate(self, x, cosines, sines):
        import torch

        first, second = x.chunk(2, -1)
        return (x * cosines + torch.cat((-second, first), -1) * sines).to(x.dtype)

    def split(self, x, qkv):
        import torch.nn.functional as functional

        s = self.shape
        own = functional.linear(self.norm(x), qkv)
        widths = [s["heads"] * s["head"], s["kv_heads"] * s["head"], s["kv_heads"] * s["head"]]
        return own.split(widths, -1)

    def rest(self, x, y, o, gates, down):
        import torch.nn.functional as functional

        x = x + functional.linear(y, o)
        gate, up = functional.linear(self.norm(x), gates).chunk(2, -1)
        return x, functional.linear(functional.silu(gate) * up, down)

    def decode_layer(self, x, delta, at, qkv, o, gates, down, keys, values):
        import torch.nn.functional as functional

        s, n = self.shape, self.sequences
        x = x + delta
        q, k, v = self.split(x, qkv)
        cosines, sines = self.cosines[at][:, None, None], self.sines[at][:, None, None]
        q = self.rotate(q.view(n, s["heads"], 1, s["head"]), cosines, sines)
        keys[self.rows, :, at] = self.rotate(k.view(n, s["kv_heads"], 1, s["head"]), cosines, sines)[:, :, 0]
        values[self.rows, :, at] = v.view(n, s["kv_heads"], s["head"])
        mask = (self.places <= at[:, None])[:, None, None, :]
        y = functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
        return self.rest(x, y.reshape(n, -1), o, gates, down)

    def prompt_layer(self, x, delta, at, qkv, o, gates, down, keys, values):
        import torch.nn.functional as functional

        s, count = self.shape, x.shape[0]
        x = x + delta
        q, k, v = self.split(x, qkv)
        cosines, sines = self.cosines[:count], self.sines[:count]
        q = self.rotate(q.view(count, s["heads"], s["head"]).transpose(0, 1), cosines, sines)
        k = self.rotate(k.view(count, s["kv_heads"], s["head"]).transpose(0, 1), cosines, sines)
        v = v.view(count, s["kv_heads"], s["head"]).transpose(0, 1)
        keys[0, :, :count] = k
        values[0, :, :count] = v
        y = functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)
        return self.rest(x, y[0].transpose(0, 1).reshape(count, -1), o, gates, down)

    def head(self, x, delta):
        import torch.nn.functional as functional

        return functional.linear(self.norm(x + delta), self.last).argmax(-1)

    def step(self, layer, head, tokens, at):
        import torch

        x = self.embedding[tokens]
        delta = torch.zeros_like(x)
        for own in self.layers:
            x, delta = layer(x, delta, at, *own)
        return head(x[-self.sequences :], delta[-self.sequences :])


def median_ms(function, count):
    import torch

    times = []
    for i in range(count):
        start = time.perf_counter()
        function(i)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def read_bandwidth():
    """Bytes per second of reads of memory that no cache holds: the best of a sum and of a product with a vector."""
    import torch

    large = torch.ones((1 << 19, 4096), dtype=torch.bfloat16, device="cuda")
    vector = torch.ones(4096, dtype=torch.bfloat16, device="cuda")
    best = 0.0
    for function in (lambda: large.view(torch.float32).sum(), lambda: torch.mv(large, vector), lambda: large.amax()):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        for _ in range(3):
            function()
        begin.record()
        for _ in range(5):
            function()
        end.record()
        torch.cuda.synchronize()
        best = max(best, 5 * 2 * large.numel() / (begin.elapsed_time(end) / 1e3))
    return best


def captured(function):
    """`function` as a graph, after runs that compile it."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()
    return graph, result


def decode(folder, shape, layers, sequences, context, prompt, count, first):
    """Tokens after `prompt` (of the first sequence), and ms of a step with the tokens at the host."""
    import torch

    torch.compiler.reset()
    model = Model(folder, shape, layers, context, sequences)
    mode = "max-autotune-no-cudagraphs"
    layer = torch.compile(model.decode_layer, mode=mode, fullgraph=True, dynamic=False)
    head = torch.compile(model.head, mode=mode, fullgraph=True, dynamic=False)
    at = torch.zeros(sequences, dtype=torch.long, device="cuda")
    token = torch.zeros(sequences, dtype=torch.long, device="cuda")
    start = time.time()
    graph, chosen = captured(lambda: model.step(layer, head, token, at))
    compile_s = time.time() - start
    tokens = []
    for i in range(len(prompt) + count - 1):
        token.fill_(prompt[i] if i < len(prompt) else tokens[-1])
        at.fill_(i)
        graph.replay()
        if i + 1 >= len(prompt):
            tokens.append(chosen[0].item())
    at.copy_(first)

    def step(i):
        graph.replay()
        token.copy_(chosen)
        at.add_(1)
        token.cpu()

    ms = median_ms(step, 48)
    return tokens, ms, compile_s


def prefill(folder, shape, layers, count):
    """ms of a prompt in each way."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.compiler.reset()
    model = Model(folder, shape, layers, count, 1)
    tokens = torch.arange(count, device="cuda") * 37 % shape["vocabulary"]
    found = {}
    compiled = [torch.compile(f, fullgraph=True, dynamic=False) for f in (model.prompt_layer, model.head)]
    for name, functions in (("eager", (model.prompt_layer, model.head)), ("compiled", compiled)):
        for kind, backends in (("", [SDPBackend.FLASH_ATTENTION]), (", cuDNN", [SDPBackend.CUDNN_ATTENTION])):
            try:
                with sdpa_kernel(backends):
                    for _ in range(3):
                        model.step(*functions, tokens, None).cpu()
                    found[name + kind] = median_ms(lambda _: model.step(*functions, tokens, None).cpu(), 8)
            except RuntimeError as error:
                found[name + kind] = str(error)[:200]
            torch.compiler.reset()
    return found


def measure(peer, folder, shape, layers, prompt, lathe_tokens, entry):
    """Decoding, prefill or 32 sequences; ms."""
    import torch

    with torch.no_grad():
        if peer == "decode":
            first = torch.full((1,), 512)
            tokens, ms, compile_s = decode(folder, shape, layers, 1, 1024, prompt, len(lathe_tokens), first)
            equal = 0
            while equal < len(tokens) and tokens[equal] == lathe_tokens[equal]:
                equal += 1
            entry["torch"] = {"ms": ms, "compile_s": compile_s, "equal": equal}
            print(f"PyTorch, max-autotune in a graph: {ms:.3f} ms a token (compiled in {compile_s:.0f} s); the first "
                  f"{equal} of {len(lathe_tokens)} tokens equal", flush=True)
        elif peer == "prefill":
            found = entry["torch_prefill"] = prefill(folder, shape, layers, 2048)
            print(f"PyTorch, prompt of 2048: {found}", flush=True)
            ms = min(value for value in found.values() if not isinstance(value, str))
        else:
            first = torch.linspace(64, 2000, 32).long()
            _, ms, compile_s = decode(folder, shape, layers, 32, 2112, prompt[:1], 1, first)
            entry["torch_32"] = {"ms": ms, "compile_s": compile_s}
            print(f"PyTorch, 32 sequences, contexts of 64 to 2,048: {ms:.3f} ms a step", flush=True)
        torch.cuda.empty_cache()
    return ms


def report_bandwidth(read, entry):
    """Prints how fast the card reads, and what that means for `read` bytes."""
    import torch

    bandwidth = entry["bytes_per_s"] = read_bandwidth()
    torch.cuda.empty_cache()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}: reading at {bandwidth / 1e12:.2f} TB/s, the "
          f"weights of a token take {1e3 * read / bandwidth:.3f} ms", flush=True)
