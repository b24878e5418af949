# SPDX-License-Identifier: MIT
"""Decoding of Llama-3.1-8B's shape with random weights, made here, beside a compiled PyTorch model of the same weights.

Fewer layers than 32 keep their making and compiling short; each has the size of the real one.
"""

import json
import statistics
import time

SHAPE = {"hidden": 4096, "inner": 14336, "heads": 32, "kv_heads": 8, "head": 128, "vocabulary": 128256, "context": 1024}
SMALL = {"hidden": 64, "inner": 128, "heads": 4, "kv_heads": 2, "head": 16, "vocabulary": 512, "context": 128}


def tensors_of(shape, layers):
    """Names and sizes, by Hugging Face's names."""
    hidden, inner = shape["hidden"], shape["inner"]
    yield "model.embed_tokens.weight", (shape["vocabulary"], hidden)
    for i in range(layers):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", (hidden,)
        yield at + "post_attention_layernorm.weight", (hidden,)
        yield at + "self_attn.q_proj.weight", (shape["heads"] * shape["head"], hidden)
        yield at + "self_attn.k_proj.weight", (shape["kv_heads"] * shape["head"], hidden)
        yield at + "self_attn.v_proj.weight", (shape["kv_heads"] * shape["head"], hidden)
        yield at + "self_attn.o_proj.weight", (hidden, shape["heads"] * shape["head"])
        yield at + "mlp.gate_proj.weight", (inner, hidden)
        yield at + "mlp.up_proj.weight", (inner, hidden)
        yield at + "mlp.down_proj.weight", (hidden, inner)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (shape["vocabulary"], hidden)


def make(folder, shape, layers):
    """Writes a folder of Hugging Face's form with weights in bf16."""
    import numpy

    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_act": "silu",
        "hidden_size": shape["hidden"],
        "intermediate_size": shape["inner"],
        "num_hidden_layers": layers,
        "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["kv_heads"],
        "head_dim": shape["head"],
        "vocab_size": shape["vocabulary"],
        "max_position_embeddings": shape["context"],
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    (folder / "config.json").write_text(json.dumps(config))
    header, offset = {}, 0
    for name, size in tensors_of(shape, layers):
        count = int(numpy.prod(size))
        header[name] = {"dtype": "BF16", "shape": list(size), "data_offsets": [offset, offset + 2 * count]}
        offset += 2 * count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # One block of numbers, read from other places for each tensor.
    numbers = numpy.random.default_rng(1).standard_normal(1 << 24, dtype=numpy.float32)
    bits = (numbers * 0.02).view(numpy.uint32) >> 16
    block = bits.astype(numpy.uint16)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for number, (name, size) in enumerate(tensors_of(shape, layers)):
            left = int(numpy.prod(size))
            if len(size) == 1:
                file.write(numpy.full(left, 0x3F80, numpy.uint16).tobytes())
                continue
            at = number * 1234567 % len(block)
            while left > 0:
                part = block[at : at + left]
                file.write(part.tobytes())
                left -= len(part)
                at = 0
    return offset


def torch_model(folder, shape, layers):
    import mmap

    import torch
    import torch.nn.functional as functional

    file = open(folder / "model.safetensors", "rb")
    view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    size = int.from_bytes(view[:8], "little")
    header = json.loads(view[8 : 8 + size])

    def weight(name):
        entry = header[name]
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(view, dtype=torch.bfloat16, count=(end - begin) // 2, offset=8 + size + begin)
        return flat.view(entry["shape"]).cuda()

    heads, kv_heads, head = shape["heads"], shape["kv_heads"], shape["head"]

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("embedding", weight("model.embed_tokens.weight"))
            self.register_buffer("last", weight("lm_head.weight"))
            for i in range(layers):
                at = f"model.layers.{i}."
                attention = [weight(at + f"self_attn.{x}_proj.weight") for x in "qkv"]
                self.register_buffer(f"qkv{i}", torch.cat(attention))
                self.register_buffer(f"o{i}", weight(at + "self_attn.o_proj.weight"))
                gates = [weight(at + f"mlp.{x}_proj.weight") for x in ("gate", "up")]
                self.register_buffer(f"gate{i}", torch.cat(gates))
                self.register_buffer(f"down{i}", weight(at + "mlp.down_proj.weight"))
                for cache in "kv":
                    zeros = torch.zeros(1, kv_heads, shape["context"], head, dtype=torch.bfloat16, device="cuda")
                    self.register_buffer(f"{cache}{i}", zeros)
            angles = 500000.0 ** (-torch.arange(0, head, 2, device="cuda").float() / head)
            angles = torch.arange(shape["context"], device="cuda").float()[:, None] * angles
            self.register_buffer("cosines", angles.cos().repeat(1, 2))
            self.register_buffer("sines", angles.sin().repeat(1, 2))
            self.register_buffer("places", torch.arange(shape["context"], device="cuda"))

        def norm(self, x):
            wide = x.float()
            return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)

        def rotate(self, x, at):
            first, second = x.chunk(2, -1)
            turned = torch.cat((-second, first), -1)
            return (x * self.cosines[at] + turned * self.sines[at]).to(x.dtype)

        def forward(self, token, at):
            x = self.embedding[token]
            mask = (self.places <= at)[None, None, None, :]
            for i in range(layers):
                own = functional.linear(self.norm(x), getattr(self, f"qkv{i}"))
                q, k, v = own.split([heads * head, kv_heads * head, kv_heads * head], -1)
                q = self.rotate(q.view(1, heads, 1, head), at)
                keys, values = getattr(self, f"k{i}"), getattr(self, f"v{i}")
                keys[:, :, at] = self.rotate(k.view(1, kv_heads, 1, head), at)
                values[:, :, at] = v.view(1, kv_heads, 1, head)
                y = functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
                x = x + functional.linear(y.reshape(1, -1), getattr(self, f"o{i}"))
                gate, up = functional.linear(self.norm(x), getattr(self, f"gate{i}")).chunk(2, -1)
                x = x + functional.linear(functional.silu(gate) * up, getattr(self, f"down{i}"))
            return functional.linear(self.norm(x), self.last).argmax(-1)

    return Model().eval()


def time_torch(folder, shape, layers, prompt, count, mode):
    """Tokens after `prompt`, and the median ms of a step with each token at the host, from position 512."""
    import torch

    with torch.no_grad():
        model = torch_model(folder, shape, layers)
        start = time.time()
        step = torch.compile(model, mode=mode, fullgraph=True)
        tokens = []
        at = torch.zeros(1, dtype=torch.long, device="cuda")
        token = torch.zeros(1, dtype=torch.long, device="cuda")
        for i in range(len(prompt) + count - 1):
            token.fill_(prompt[i] if i < len(prompt) else tokens[-1])
            at.fill_(i)
            chosen = step(token, at).item()
            if i + 1 >= len(prompt):
                tokens.append(chosen)
        compile_s = time.time() - start
        times = []
        for i in range(shape["context"] // 2, shape["context"] // 2 + 64):
            start = time.perf_counter()
            at.fill_(i)
            token.fill_(step(token, at).item())
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
        # The bandwidth of reads, of memory that no cache holds.
        large = torch.ones(1 << 30, dtype=torch.float32, device="cuda")
        large.sum()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(5):
            large.sum()
        torch.cuda.synchronize()
        bandwidth = 5 * large.numel() * 4 / (time.perf_counter() - start)
    return {"tokens": tokens, "ms": statistics.median(times), "first_steps_s": compile_s, "bytes_per_s": bandwidth}


def compare(root, run, target, results, layers=4, mode="max-autotune"):
    """Lathe before and after PyTorch; `run(command, target)` runs Lathe."""
    shape = SMALL if target == "gpu:host" else SHAPE
    folder = root / f"llama-{layers}"
    start = time.time()
    size = make(folder, shape, layers)
    entry = results["llama"] = {"layers": layers, "weight_bytes": size, "made_s": time.time() - start, "lathe": []}
    prompt = [1 + i * 37 % (shape["vocabulary"] - 1) for i in range(16)]
    perf = ["bin/lathe", "perf", str(folder), "--target", target, "--compute", "bf16", "--json"]
    perf += ["--prompt-tokens", str(shape["context"] // 2), "--new-tokens", "2" if target == "gpu:host" else "64"]

    def lathe():
        code, out, err, seconds = run(perf, target)
        if code != 0:
            print(f"llama: exit {code}\n{err[-1500:]}", flush=True)
            return
        found = json.loads(out)
        entry["lathe"].append(found | {"seconds": seconds})
        print(f"llama, {layers} layers: Lathe {1e3 / found['tokens_per_second']:.3f} ms a token, prompt "
              f"{1e3 * found['first_token_seconds']:.1f} ms, {seconds:.1f} s, {found['decode_shares']}", flush=True)

    lathe()
    ids = ",".join(map(str, prompt))
    code, out, err, _ = run(["bin/lathe", "generate", str(folder), "--target", target, "--compute", "bf16", "--ids",
                             ids, "--max-new-tokens", "2" if target == "gpu:host" else "24", "--json"], target)
    tokens = json.loads(out)["ids"] if code == 0 else []
    if code != 0:
        print(f"llama: exit {code}\n{err[-1500:]}", flush=True)
    if target == "gpu:host":
        return
    entry["torch"] = time_torch(folder, shape, layers, prompt, 24, mode)
    lathe()
    peer = entry["torch"]
    equal = 0
    while equal < min(len(tokens), len(peer["tokens"])) and tokens[equal] == peer["tokens"][equal]:
        equal += 1
    entry["equal_tokens"] = equal
    # A token reads one row of the embedding.
    least = 1e3 * (size - 2 * shape["vocabulary"] * shape["hidden"]) / peer["bytes_per_s"]
    print(f"PyTorch {mode}: {peer['ms']:.3f} ms a token (first steps {peer['first_steps_s']:.0f} s); {equal} of "
          f"{len(tokens)} tokens equal; reading the weights at {peer['bytes_per_s'] / 1e12:.2f} TB/s takes {least:.3f} ms")
