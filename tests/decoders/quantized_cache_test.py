# SPDX-License-Identifier: MIT
"""Small decoders with KV caches quantised to 8 or 4 bits, also paged, against ONNX Runtime; and queries and keys
normalised inside the operator, against those normalised before it."""

import json
import pathlib
import sys
import tempfile

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, save

from probe import Probe, Refused

LAYERS, HIDDEN, HEADS, KV_HEADS, SIZE, TOKENS, CONTEXT = 2, 48, 4, 2, 16, 40, 128
F32, I64, I32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
PROMPTS = [[(7 * i + 3) % TOKENS for i in range(70)], [5, 9, 2], [31, 30, 29, 3, 1, 17, 4, 8, 8, 8, 11, 6]]
# A value between two codes may round either way: one code of one element.
WITHIN = {None: 2e-5, 8: 5e-3, 4: 5e-2}


def write(path, bits=None, per_channel=False, norms=None, blocks=0, kind=None, twice=False):
    """`bits` of the cached codes. `norms`: "inside" the operator, or "before" it. `blocks`: blocks of paged KV caches.
    `twice`: another attention without new keys reads layer 0's KV cache."""
    random, scales_of = np.random.default_rng(7), np.random.default_rng(8)
    node, value = helper.make_node, helper.make_tensor_value_info
    angles = np.arange(CONTEXT)[:, None] / 10000 ** (np.arange(SIZE // 2) / (SIZE // 2))
    weights = {"embedding": random.standard_normal((TOKENS, HIDDEN)), "head": random.standard_normal((HIDDEN, TOKENS)) / 4,
               "cos": np.cos(angles), "sin": np.sin(angles), "gain": np.ones(HIDDEN)}
    ids = [] if blocks else ["batch"]
    nodes, constants = [node("Gather", ["embedding", "input_ids"], ["x0"])], {}
    if not blocks:
        nodes += [node("ReduceSum", ["attention_mask", "axis"], ["filled"], keepdims=0),
                  node("Sub", ["filled", "one"], ["last"]), node("Cast", ["last"], ["seqlens_k"], to=I32),
                  node("Shape", ["attention_mask"], ["mask_shape"]), node("Gather", ["mask_shape", "one"], ["columns"]),
                  node("Cast", ["columns"], ["total_length"], to=I32)]
        constants = {"one": np.array(1), "axis": np.array([1])}
    element = kind or {None: F32, 8: TensorProto.INT8, 4: TensorProto.UINT8}[bits]
    stored = SIZE // 2 if bits == 4 else SIZE
    states, widths = [], {"q": HEADS, "k": KV_HEADS, "v": KV_HEADS}
    for i in range(LAYERS):
        for name, heads in widths.items():
            weights[f"{name}{i}"] = random.standard_normal((HIDDEN, heads * SIZE)) / HIDDEN ** 0.5
        weights[f"out{i}"] = random.standard_normal((HEADS * SIZE, HIDDEN)) / HIDDEN ** 0.5
        weights |= {f"{x}_norm{i}": random.standard_normal(SIZE) / 4 + 1 for x in "qk"}
        pasts, presents = ([f"{word}.{i}.{what}" for what in ("key", "value")] for word in ("past_key_values", "present"))
        states += zip(pasts, presents)
        nodes.append(node("SimplifiedLayerNormalization", [f"x{i}", "gain"], [f"norm{i}"], epsilon=1e-5))
        parts = []
        for name, heads in widths.items():
            nodes.append(node("MatMul", [f"norm{i}", f"{name}{i}"], [f"{name}_tokens{i}"]))
            parts.append(f"{name}_tokens{i}")
            if norms == "before" and name in "qk":
                lead = [0] * (1 + len(ids))
                constants |= {f"apart{heads}": np.array([*lead, heads, SIZE]), f"flat{heads}": np.array([*lead, heads * SIZE])}
                nodes += [node("Reshape", [parts[-1], f"apart{heads}"], [f"{name}_heads{i}"]),
                          node("SimplifiedLayerNormalization", [f"{name}_heads{i}", f"{name}_norm{i}"], [f"{name}_even{i}"],
                               epsilon=1e-6),
                          node("Reshape", [f"{name}_even{i}", f"flat{heads}"], [f"{name}_normed{i}"])]
                parts[-1] = f"{name}_normed{i}"
        if i == 1:  # queries, keys and values in one operand
            nodes.append(node("Concat", parts, [f"heads{i}"], axis=-1))
            parts = [f"heads{i}", "", ""]
        attributes = dict(num_heads=HEADS, kv_num_heads=KV_HEADS, do_rotary=1)
        scales = ["", ""]
        if bits:
            how = "PER_CHANNEL" if per_channel else "PER_TENSOR"
            attributes |= {"k_quant_type": how, "v_quant_type": how}
            scales = [f"k_scale{i}", f"v_scale{i}"]
            for name in scales:
                count = KV_HEADS * SIZE if per_channel else 1
                scale = (scales_of.random(count) + 1) * (3 / 128 if bits == 8 else 3 / 8)
                weights[name] = scale.reshape((KV_HEADS, 1, SIZE) if blocks and per_channel else -1)
        gains = [f"q_norm{i}", f"k_norm{i}"] if norms == "inside" else ["", ""]
        if blocks:
            if bits == 4:
                attributes |= {"k_cache_dtype": "int4", "v_cache_dtype": "int4"}
            inputs = [*parts, *pasts, "cumulative_sequence_lengths", "past_sequence_lengths", "block_table", "cos", "sin",
                      "", "", *gains, *scales]
        else:
            attributes |= {"kv_cache_bit_width": bits} if bits else {}
            inputs = [*parts, *pasts, "seqlens_k", "total_length", "cos", "sin", "", "", "", *scales, *gains]
        while not inputs[-1]:
            inputs.pop()
        nodes.append(node("PagedAttention" if blocks else "GroupQueryAttention", inputs, [f"attended{i}", *presents],
                          domain="com.microsoft", **attributes))
        if twice and i == 0:
            constants |= {"nothing": np.array([0])}
            nodes += [node("Slice", [parts[1], "nothing", "nothing", "axis"], ["no_tokens"]),
                      node("Neg", [parts[0]], ["other_queries"]),
                      node("GroupQueryAttention", ["other_queries", "no_tokens", "no_tokens", *presents, *inputs[5:]],
                           ["attended_again", "unused_keys", "unused_values"], domain="com.microsoft", **attributes),
                      node("Add", ["attended0", "attended_again"], ["attended_twice"])]
        attended = "attended_twice" if twice and i == 0 else f"attended{i}"
        nodes += [node("MatMul", [attended, f"out{i}"], [f"y{i}"]), node("Add", [f"x{i}", f"y{i}"], [f"x{i + 1}"])]
    nodes.append(node("MatMul", [f"x{LAYERS}", "head"], ["logits"]))
    axes = ["tokens"] if blocks else ["batch", "sequence"]
    inputs = [value("input_ids", I64, axes)]
    if blocks:
        cache = lambda length: [blocks, 16, KV_HEADS, stored]
        inputs += [value("cumulative_sequence_lengths", I32, ["bounds"]), value("past_sequence_lengths", I32, ["sequences"]),
                   value("block_table", I32, ["sequences", "widest"])]
    else:
        cache = lambda length: ["batch", KV_HEADS, length, stored]
        inputs.append(value("attention_mask", I64, ["batch", "total"]))
    inputs += [value(past, element, cache("past")) for past, _ in states]
    outputs = [value("logits", F32, [*axes, TOKENS])] + [value(present, element, cache("total")) for _, present in states]
    tensors = [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()
               if any(name in n.input for n in nodes)]
    tensors += [numpy_helper.from_array(w.astype(np.int64), name) for name, w in constants.items()]
    model = helper.make_model(helper.make_graph(nodes, "decoder", inputs, outputs, tensors), ir_version=10,
                              opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])
    folder = pathlib.Path(path)
    folder.mkdir()
    save(model, folder / "model.onnx")
    names = {"input_ids": "input_ids", "past_key_names": "past_key_values.%d.key",
             "past_value_names": "past_key_values.%d.value"}
    more = ("block_table", "cumulative_sequence_lengths", "past_sequence_lengths") if blocks else ("attention_mask",)
    decoder = {"filename": "model.onnx", "head_size": SIZE, "hidden_size": HIDDEN, "num_attention_heads": HEADS,
               "num_key_value_heads": KV_HEADS, "num_hidden_layers": LAYERS, "inputs": names | {n: n for n in more},
               "outputs": {"logits": "logits", "present_key_names": "present.%d.key",
                           "present_value_names": "present.%d.value"}}
    config = {"model": {"type": "llama", "vocab_size": TOKENS, "context_length": CONTEXT, "eos_token_id": 0,
                        "decoder": decoder}, "search": {"max_length": CONTEXT}}
    (folder / "genai_config.json").write_text(json.dumps(config))
    return folder


def reference(folder, parts):
    """Every prompt's logits from ONNX Runtime, in parts of these sizes, the last of which repeats."""
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    kinds = {"tensor(int8)": np.int8, "tensor(uint8)": np.uint8, "tensor(float)": np.float32}
    all_logits = []
    for prompt in PROMPTS:
        states = {i.name: np.zeros((1, KV_HEADS, 0, i.shape[3]), kinds[i.type]) for i in session.get_inputs()
                  if i.name.startswith("past")}
        done, step = 0, 0
        while done < len(prompt):
            count = min(parts[min(step, len(parts) - 1)], len(prompt) - done)
            given = {"input_ids": np.array([prompt[done:done + count]]), "attention_mask": np.ones((1, done + count), np.int64)}
            names = [o.name for o in session.get_outputs()]
            results = dict(zip(names, session.run(names, given | states)))
            states = {name: results[name.replace("past_key_values", "present")] for name in states}
            all_logits.append(results["logits"][0])
            done, step = done + count, step + 1
    return np.concatenate(all_logits)


def check_packed(probe, model, spellings):
    """Checks that chunks and batches change no bits; returns the logits."""
    notes = probe.ask({**model, "notes": True})
    if not notes["packed"] or not all(state["paged"] for state in notes["states"]):
        raise AssertionError(f"{notes}")
    logits = probe.logits(model, PROMPTS)
    for options in spellings:
        if probe.logits({**model, **options.get("model", {})}, PROMPTS, options.get("parts", ()),
                        options.get("together", True)).tobytes() != logits.tobytes():
            raise AssertionError(f"{options}: bits differ")
    return logits


SPELLINGS = ({"parts": (1,)}, {"parts": (16,)}, {"parts": (5, 1)}, {"together": False}, {"model": {"threads": 3}})


def check_codes(probe, work, bits, per_channel):
    folder = write(work / f"codes{bits}{per_channel}", bits, per_channel)
    expected = reference(folder, (200,))
    logits = {}
    for target in ("ref", "cpu"):
        logits[target] = check_packed(probe, {"folder": str(folder), "target": target}, SPELLINGS)
        distance = np.abs(logits[target] - expected).max()
        if not distance <= WITHIN[bits]:
            yield f"{target} is {distance} away from ONNX Runtime"
    steps = np.abs(logits["cpu"] - reference(folder, (3, 1))).max()
    if not steps <= WITHIN[bits]:
        yield f"ONNX Runtime's steps are {steps} away"
    # Quantisation must change the logits.
    plain = probe.logits({"folder": str(write(work / f"plain{bits}{per_channel}"))}, PROMPTS)
    if not WITHIN[bits] < np.abs(plain - expected).max():
        yield f"an unquantised cache is only {np.abs(plain - expected).max()} away"
    blocks = write(work / f"blocks{bits}{per_channel}", bits, per_channel, blocks=16)
    for target in ("ref", "cpu"):
        model = {"folder": str(blocks), "target": target}
        if check_packed(probe, model, SPELLINGS[:2]).tobytes() != logits[target].tobytes():
            yield f"paged KV caches change bits on {target}"
    got = probe.generate({"folder": str(folder), "target": "cpu"}, PROMPTS, max_new_tokens=12, num_beams=3)
    alone = [probe.generate({"folder": str(folder), "target": "cpu"}, [p], max_new_tokens=12, num_beams=3)[0] for p in PROMPTS]
    if got != alone:
        yield f"beams: {got}, alone {alone}"


def check_shared(probe, work, bits):
    folder = write(work / f"shared{bits}", bits, True, twice=True)
    expected = reference(folder, (200,))
    for target in ("ref", "cpu"):
        distance = np.abs(check_packed(probe, {"folder": str(folder), "target": target}, SPELLINGS) - expected).max()
        if not distance <= WITHIN[bits]:
            yield f"{target} is {distance} away from ONNX Runtime"


def check_floats(probe, work):
    """8-bit float codes, which ONNX Runtime's CPU kernels do not support."""
    kind = TensorProto.FLOAT8E4M3FN
    folder = write(work / "floats", 8, True, kind=kind)
    logits = {t: check_packed(probe, {"folder": str(folder), "target": t}, SPELLINGS[:2]) for t in ("ref", "cpu")}
    distance = np.abs(logits["ref"] - logits["cpu"]).max()
    plain = probe.logits({"folder": str(write(work / "numbers"))}, PROMPTS)
    if not distance <= 5e-2 or not 1e-3 < np.abs(logits["ref"] - plain).max() < 3:
        yield f"targets are {distance} apart, an unquantised cache {np.abs(logits['ref'] - plain).max()} away"


def check_norms(probe, work):
    before = write(work / "before", norms="before")
    expected = reference(before, (200,))
    for target in ("ref", "cpu"):
        logits = check_packed(probe, {"folder": str(before), "target": target}, ())
        if not np.abs(logits - expected).max() <= WITHIN[None]:
            yield f"{target} is {np.abs(logits - expected).max()} away from ONNX Runtime"
        for blocks in (0, 16):
            inside = work / f"inside{blocks}"
            if not inside.exists():
                write(inside, norms="inside", blocks=blocks)
            if check_packed(probe, {"folder": str(inside), "target": target}, SPELLINGS[:1]).tobytes() != logits.tobytes():
                yield f"norms inside the operator change bits on {target}, blocks: {blocks}"


def main():
    passed, failed = 0, 0
    with Probe() as probe, tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        cases = {f"{bits} bits, per channel: {c}": (lambda b=bits, c=c: check_codes(probe, work, b, c))
                 for bits in (8, 4) for c in (False, True)}
        cases |= {f"{bits} bits, read twice": (lambda b=bits: check_shared(probe, work, b)) for bits in (8, 4)}
        cases |= {"floats of 8 bits": lambda: check_floats(probe, work), "norms": lambda: check_norms(probe, work)}
        for name, case in cases.items():
            try:
                problems = list(case())
            except (AssertionError, Refused) as problem:
                problems = [str(problem)]
            for problem in problems:
                print(f"wrong: {name}: {problem[:600]}", file=sys.stderr)
            passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
