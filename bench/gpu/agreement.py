# SPDX-License-Identifier: MIT
"""Log-probabilities of what Lathe generates beside PyTorch's of the same tokens, in bf16 and in f32.

Each is eager and reads the whole text at once; Lathe's are those of a prompt's last row and of steps of decoding.
"""

import json

# Lathe's error against f32 may be this much of that of PyTorch's bf16, which is the error of rounding.
LIMIT = 1.5
TOP = 32


def generate(folder, options, prompt, count, run, target):
    """Tokens, and for each the most likely ones with their log-probabilities; none where it fails."""
    code, out, err, _ = run(["bin/lathe", "generate", str(folder), "--target", target, *options, "--ids",
                             ",".join(map(str, prompt)), "--max-new-tokens", str(count), "--min-new-tokens",
                             str(count), "--log-probabilities", str(TOP), "--json"], target)
    if code != 0:
        print(f"llama: exit {code}\n{err[-1500:]}", flush=True)
        return [], []
    found = json.loads(out)
    likely = [[(entry["id"], entry["log_probability"]) for entry in choice["likeliest"]]
              for choice in found["log_probabilities"]]
    return found["ids"], likely


def rows_of(model, tokens, first, kind):
    """Log-probabilities after each token from `first` on."""
    import torch
    import torch.nn.functional as functional

    x = model.embedding[torch.tensor(tokens, device=model.device)].to(kind)
    delta = torch.zeros_like(x)
    for own in model.layers:
        weights = [weight.to(kind) for weight in own[:4]]
        x, delta = model.prompt_layer(x, delta, None, *weights, *own[4:])
    x = model.norm((x + delta)[first:])
    return functional.linear(x, model.last.to(kind)).float().log_softmax(-1)


def difference(a, b):
    """Root of the mean square, and the largest."""
    return (a - b).pow(2).mean().sqrt().item(), (a - b).abs().max().item()


def check(folder, shape, layers, options, prompts, run, target, entry):
    """Whether Lathe's error is one of rounding, after prompts of (length, new tokens), and the first tokens."""
    import torch

    import llama_torch

    every, agreed = [], True
    with torch.no_grad():
        model = llama_torch.Model(folder, shape, layers, max(sum(entry) for entry in prompts), 1)
        for length, count in prompts:
            prompt = [1 + i * 37 % (shape["vocabulary"] - 1) for i in range(length)]
            ids, likely = generate(folder, options, prompt, count, run, target)
            if len(ids) != count:
                return False, ids
            every.append(ids)
            text = prompt + ids[:-1]
            narrow, wide = (rows_of(model, text, length - 1, kind) for kind in (torch.bfloat16, torch.float32))
            places = torch.tensor([[token for token, _ in row] for row in likely], device=model.device)
            lathe = torch.tensor([[value for _, value in row] for row in likely], device=model.device)
            chosen = torch.tensor(ids, device=model.device)
            found = {
                "lathe_f32": difference(lathe, wide.gather(1, places)),
                "torch_f32": difference(narrow.gather(1, places), wide.gather(1, places)),
                "lathe_torch": difference(lathe, narrow.gather(1, places)),
                "choices": [int((rows.argmax(-1) == chosen).sum()) for rows in (narrow, wide)],
                "torch_choices": int((narrow.argmax(-1) == wide.argmax(-1)).sum()),
            }
            good = found["lathe_f32"][0] <= LIMIT * found["torch_f32"][0]
            agreed = agreed and good
            entry.setdefault("agreement", {})[length] = found
            print(f"{folder.name}, prompt of {length}, {count} steps, {TOP} most likely, rms (largest) difference "
                  "of log-probabilities: " + ", ".join(
                      f"{name} {found[key][0]:.4f} ({found[key][1]:.3f})" for key, name in (
                          ("lathe_f32", "Lathe - f32"), ("torch_f32", "PyTorch bf16 - f32"),
                          ("lathe_torch", "Lathe - PyTorch bf16"))) +
                  f"; choices as PyTorch's bf16 {found['choices'][0]}, f32 {found['choices'][1]}, PyTorch's among "
                  f"themselves {found['torch_choices']} of {count}: {'agree' if good else 'DISAGREE'}", flush=True)
    return agreed, every[0]
