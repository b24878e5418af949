# SPDX-License-Identifier: MIT
"""Llama-3.1-8B's shape with random weights, made here, beside a compiled PyTorch model of the same weights.

Fewer layers than 32 keep their making short; each has the size of the real one.
"""

import json
import time

import agreement
import llama_torch
from kernels import measure as measure_kernels

SHAPE = {"hidden": 4096, "inner": 14336, "heads": 32, "kv_heads": 8, "head": 128, "vocabulary": 128256, "context": 4096}
SMOLLM2 = {"hidden": 576, "inner": 1536, "heads": 9, "kv_heads": 3, "head": 64, "vocabulary": 49152, "context": 4096}
SMALL = {"hidden": 128, "inner": 128, "heads": 2, "kv_heads": 1, "head": 64, "vocabulary": 128, "context": 64}
# Name, options, sequences, tokens of their prompts, new tokens.
WAYS = {
    "bf16": (["--compute", "bf16"], 1, 512, 64),
    "int4": (["--quantize", "int4,block=128,symmetric", "--compute", "bf16"], 1, 512, 64),
    "bf16, 32 sequences": (["--compute", "bf16"], 32, 1024, 32),
    "bf16, prompt of 2048": (["--compute", "bf16"], 1, 2048, 8),
    "int4, prompt of 2048": (["--quantize", "int4,block=128,symmetric", "--compute", "bf16"], 1, 2048, 8),
}
# The way that each of PyTorch's is beside.
PEERS = {"decode": "bf16", "prefill": "bf16, prompt of 2048", "batch": "bf16, 32 sequences"}
SMALL_WAYS = {
    "bf16": (["--compute", "bf16"], 1, 4, 2),
    "int4": (["--quantize", "int4,block=128,symmetric", "--compute", "bf16"], 1, 4, 2),
    "bf16, 32 sequences": (["--compute", "bf16"], 3, 4, 2),
}


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


def measure(way, folder, run, target, results):
    """Prefill and decode of Lathe; prints them, and returns ms of what the way is about."""
    options, sequences, prompt, new = (SMALL_WAYS if target == "gpu:host" else WAYS)[way]
    command = ["bin/lathe", "perf", str(folder), "--target", target, "--json", *options]
    command += ["--sequences", str(sequences), "--prompt-tokens", str(prompt), "--new-tokens", str(new)]
    if target == "gpu:host":
        command += ["-n", "1"]
    code, out, err, seconds = run(command, target)
    if code != 0:
        print(f"llama, {way}: exit {code}\n{err[-1500:]}", flush=True)
        return None
    found = json.loads(out)
    results.setdefault(way, []).append(found | {"seconds": seconds})
    step = 1e3 * sequences / max(found["tokens_per_second"], 1e-9)
    print(f"{folder.name}, {way}: {step:.3f} ms a step, {found['step_weight_bytes'] / 1e9:.2f} GB of weights, prompts "
          f"{1e3 * found['first_token_seconds']:.1f} ms, loaded in {found['load_seconds']:.1f} s of {seconds:.1f} s, "
          f"{found['decode_shares']}", flush=True)
    return 1e3 * found["first_token_seconds"] if "prompt" in way else step


def profile(folder, shape, ways, run, keep, target, entry):
    """The kernels of a step of decoding."""
    for way in [way for way in ("bf16", "int4") if way in ways]:
        options = (SMALL_WAYS if target == "gpu:host" else WAYS)[way][0]
        ids = [1 + i * 37 % (shape["vocabulary"] - 1) for i in range(shape["context"] // 8)]
        command = ["bin/lathe", "generate", str(folder), "--target", target, *options, "--ids",
                   ",".join(map(str, ids)), "--max-new-tokens", "4", "--json"]
        measure_kernels(run, target, command, keep, f"{way}, {folder.name}", entry)


def compare(root, run, keep, target, results, layers, ways, peers, name="llama", shape=SHAPE, profiled=False):
    """Whether log-probabilities agree; then each way of Lathe, before and after PyTorch's where that has one."""
    host = target == "gpu:host"
    shape = SMALL if host else shape
    folder = root / f"{name}-{layers}"
    start = time.time()
    size = make(folder, shape, layers)
    entry = results[folder.name] = {"weight_bytes": size, "made_s": time.time() - start}
    try:
        lengths = [(4, 2), (40, 2)] if host else [(16, 24), (600, 16)]
        if layers > 30:  # Loading takes most of the time.
            lengths = lengths[:1]
        agreed, tokens = agreement.check(folder, shape, layers, WAYS["bf16"][0], lengths, run, target, entry)
    except ImportError as error:
        print(f"{folder.name}: not compared, {error}", flush=True)
        agreed, tokens, peers = True, [], []
    if not agreed:
        print(f"{folder.name}: log-probabilities disagree; nothing is timed", flush=True)
        return
    if profiled:
        profile(folder, shape, ways, run, keep, target, entry)
    peers = [] if host else peers
    if peers:
        # A token reads one row of the embedding.
        llama_torch.report_bandwidth(size - 2 * shape["vocabulary"] * shape["hidden"], entry)
    prompt = [1 + i * 37 % (shape["vocabulary"] - 1) for i in range(16)]
    for way in ways:
        own = [measure(way, folder, run, target, entry)]
        for peer in [peer for peer in peers if PEERS[peer] == way]:
            other = llama_torch.measure(peer, folder, shape, layers, prompt, tokens, entry)
            if peer == "decode":
                own.append(measure(way, folder, run, target, entry))
            own = [ms for ms in own if ms]
            if own:
                entry.setdefault("ratios", {})[way] = other / (sum(own) / len(own))
                print(f"{folder.name}, {way}: PyTorch / Lathe {other / (sum(own) / len(own)):.3f}", flush=True)
