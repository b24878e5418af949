# SPDX-License-Identifier: MIT
"""The modules that export.py exports, by idea."""
import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH = {0: "n"}, {0: "n", 1: "s"}


@dataclass
class Idea:
    name: str
    module: nn.Module
    inputs: tuple
    dynamic: dict = field(default_factory=dict)
    tolerance: str = "within 1e-5"
    program: object = None


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *operands):
        return self.function(*operands)


def call(name, function, *shapes, dynamic=None, tolerance="within 1e-5"):
    return Idea(name, Call(function), tuple(torch.randn(s) for s in shapes), dynamic or {}, tolerance)


def module(name, own, *shapes, dynamic=None, tolerance="within 1e-5"):
    torch.manual_seed(1)
    for parameter in own.parameters():
        parameter.data = torch.randint(-8, 8, parameter.shape) / 8
    for buffer in own.buffers():
        if buffer.is_floating_point() and "running" not in name:
            buffer.data = torch.randint(1, 8, buffer.shape) / 4
    return Idea(name, own, tuple(torch.randn(s) for s in shapes), dynamic or {}, tolerance)


TOKENS = {"x0": {0: "n", 1: "s"}, "x1": {0: "n", 1: "s"}}
ROWS = {"x0": {0: "n", 1: "s"}}
FINITE = "within 1e-5 finite"


def masked(idea):
    """With a mask of bools as the last input."""
    idea.inputs = (*idea.inputs[:-1], idea.inputs[-1] > 0)
    return idea


def rms(x, weight):
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class LlamaNorm(nn.Module):
    """As transformers write it, casts included."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        type_ = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * x.to(type_)


class WrittenNorm(nn.Module):
    """As models before torch 1.1 write it."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).pow(2).mean(-1, keepdim=True)
        return self.weight * ((x - mean) / torch.sqrt(variance + 1e-12)) + self.bias


def new_gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


def fast_gelu(x):
    return 0.5 * x * (1 + torch.tanh(x * 0.7978845608 * (1 + 0.044715 * x * x)))


def chunked(gate):
    def run(x):
        a, b = x.chunk(2, dim=-1)
        return a * gate(b)
    return run


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rope(q, cos, sin):
    return q * cos.unsqueeze(1) + rotate_half(q) * sin.unsqueeze(1)


def rope_parts(q, cos, sin):
    """As GPT-NeoX: a part of the head is rotated."""
    turned, rest = q[..., :8], q[..., 8:]
    return torch.cat((turned * cos + rotate_half(turned) * sin, rest), dim=-1)


class Llama(nn.Module):
    """Angles of positions, concatenated with themselves, as transformers write them."""

    def __init__(self, size):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (1e4 ** (torch.arange(0, size, 2).float() / size)))

    def forward(self, q, positions):
        inv_freq = self.inv_freq[None, :, None].float().expand(positions.shape[0], -1, 1)
        freqs = (inv_freq @ positions[:, None, :].float()).transpose(1, 2)
        emb = torch.cat((freqs, freqs), dim=-1)
        return rope(q, (emb.cos() * 1.0).to(q.dtype), (emb.sin() * 1.0).to(q.dtype))


class Cached(nn.Module):
    """Tables of all positions, cut to the length of the query."""

    def __init__(self, size):
        super().__init__()
        freqs = torch.outer(torch.arange(8).float(), 1.0 / (1e4 ** (torch.arange(0, size, 2).float() / size)))
        emb = torch.cat((freqs, freqs), dim=-1)
        self.register_buffer("cos_cached", emb.cos())
        self.register_buffer("sin_cached", emb.sin())

    def forward(self, q):
        length = q.shape[2]
        cos, sin = self.cos_cached[:length], self.sin_cached[:length]
        return q * cos + rotate_half(q) * sin


def written_attention(scale_query):
    def run(q, k, v):
        if scale_query:
            return torch.softmax((q * 0.25) @ k.transpose(-1, -2), -1) @ v
        return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(16), -1) @ v
    return run


def masked_attention(q, k, v, mask):
    return torch.softmax(q @ k.transpose(-1, -2) / 4 + mask, -1) @ v


def filled_attention(q, k, v, mask):
    """As DistilBERT."""
    scores = (q @ k.transpose(-1, -2) / 4).masked_fill(mask > 0, torch.finfo(torch.float32).min)
    return torch.softmax(scores, -1) @ v


def t5_attention(q, k, v, bias):
    """No scale, a bias of positions."""
    scores = torch.matmul(q, k.transpose(3, 2)) + bias
    return torch.matmul(F.softmax(scores.float(), dim=-1).type_as(scores), v)


class Bert(nn.Module):
    """BERT's, MiniLM's and ViT's: heads split and merged."""

    def __init__(self, size, heads, mask, sdpa):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))
        self.heads, self.size, self.mask, self.sdpa = heads, size // heads, mask, sdpa

    def split(self, x):
        return x.view(x.shape[0], -1, self.heads, self.size).transpose(1, 2)

    def forward(self, x, mask=None):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        if self.mask:
            mask = (1 - mask[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
        if self.sdpa:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.size)
            y = torch.matmul(nn.functional.softmax(scores if mask is None else scores + mask, dim=-1), v)
        y = y.permute(0, 2, 1, 3).contiguous()
        return y.view(y.shape[0], -1, self.heads * self.size)


class Whisper(nn.Module):
    """The query scaled before the heads are split, no bias of keys."""

    def __init__(self, size, heads):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(size, size), nn.Linear(size, size, bias=False), nn.Linear(size, size)
        self.heads, self.size = heads, size // heads

    def forward(self, x):
        n, s, _ = x.shape
        def split(t):
            return t.view(n, -1, self.heads, self.size).transpose(1, 2)
        q, k, v = split(self.q(x) * self.size ** -0.5), split(self.k(x)), split(self.v(x))
        weights = F.softmax(torch.matmul(q, k.transpose(2, 3)), dim=-1)
        return torch.matmul(weights, v).transpose(1, 2).reshape(n, s, -1)


class OldWhisper(Whisper):
    """Heads folded into the batch, as bmm requires."""

    def forward(self, x):
        n, s, size = x.shape
        def split(t):
            return t.view(n, -1, self.heads, self.size).transpose(1, 2).reshape(n * self.heads, -1, self.size)
        q, k, v = split(self.q(x) * self.size ** -0.5), split(self.k(x)), split(self.v(x))
        y = torch.bmm(F.softmax(torch.bmm(q, k.transpose(1, 2)), dim=-1), v)
        return y.view(n, self.heads, s, self.size).transpose(1, 2).reshape(n, s, size)


class MultiHead(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.own = nn.MultiheadAttention(size, heads, batch_first=True)

    def forward(self, x):
        return self.own(x, x, x, need_weights=False)[0]


class Chain(nn.Sequential):
    """Batch normalisation that follows what it is folded into."""


class Fake(nn.Module):
    def __init__(self, own, per_channel):
        super().__init__()
        self.own, self.per_channel = own, per_channel

    def forward(self, x):
        def fake(t, zero):
            return torch.fake_quantize_per_tensor_affine(t, 0.03125, zero, 0 if zero else -128, 255 if zero else 127)
        weight = fake(self.own.weight, 0)
        if self.per_channel:
            count = self.own.weight.shape[0]
            weight = torch.fake_quantize_per_channel_affine(
                self.own.weight, torch.arange(1, count + 1) / 64, torch.zeros(count, dtype=torch.int32), 0, -128, 127)
        y = F.conv2d(fake(x, 128), weight) if weight.dim() == 4 else F.linear(fake(x, 128), weight)
        return fake(y, 128)


HEADS = ((2, 2, 5, 16),) * 3
BOTH = {f"x{i}": {0: "n", 2: "s"} for i in range(3)}
X = (2, 3, 8)
IDEAS = {
    "softmax": [
        call("softmax", lambda x: torch.softmax(x, -1), X, dynamic=ROWS),
        call("softmax of the middle axis", lambda x: torch.softmax(x, 1), X),
        call("softmax less its maximum, written out", lambda x: (lambda e: e / e.sum(-1, keepdim=True))(
            torch.exp(x - x.amax(-1, keepdim=True))), X, dynamic=ROWS),
        call("softmax written out with values of max", lambda x: (lambda e: e / e.sum(-1, keepdim=True))(
            torch.exp(x - x.max(-1, keepdim=True)[0])), X),
    ],
    "layer_normalization": [
        module("nn.LayerNorm", nn.LayerNorm(8), X, dynamic=ROWS),
        module("nn.LayerNorm without factors", nn.LayerNorm(8, elementwise_affine=False), X),
        module("nn.LayerNorm without a bias", nn.LayerNorm(8, bias=False), X),
        module("a layer norm written out", WrittenNorm(8), X),
    ],
    "rms_normalization": [
        module("nn.RMSNorm", nn.RMSNorm(8, eps=1e-6), X, dynamic=ROWS),
        module("nn.RMSNorm without factors", nn.RMSNorm(8, eps=1e-6, elementwise_affine=False), X),
        module("the norm of Llama and T5", LlamaNorm(8), X, dynamic=ROWS),
        call("the norm of Llama, scaled by an input", rms, X, (8,)),
    ],
    "group_normalization": [
        module("nn.GroupNorm", nn.GroupNorm(2, 4), (2, 4, 3, 3)),
        module("nn.GroupNorm of one group, rows", nn.GroupNorm(1, 4), (2, 4, 5)),
        module("nn.InstanceNorm2d", nn.InstanceNorm2d(4, affine=True), (2, 4, 3, 3)),
    ],
    "gelu": [
        call("nn.GELU", F.gelu, X, tolerance=FINITE),
        call("nn.GELU by tanh", lambda x: F.gelu(x, approximate="tanh"), X, tolerance=FINITE),
        call("GPT-2's gelu", new_gelu, X, tolerance=FINITE),
        call("the fast gelu", fast_gelu, X, tolerance=FINITE),
        call("gelu by the error function, written out", lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))), X,
             tolerance=FINITE),
        call("CLIP's gelu", lambda x: x * torch.sigmoid(1.702 * x), X, tolerance=FINITE),
    ],
    "hard_swish": [
        call("F.hardswish", F.hardswish, X, tolerance=FINITE),
        call("hard swish by relu6", lambda x: x * F.relu6(x + 3) / 6, X, tolerance=FINITE),
        call("hard swish by a gate", lambda x: x * F.hardsigmoid(x), X, tolerance=FINITE),
        call("F.silu", F.silu, X, tolerance=FINITE),
        call("F.mish", F.mish, X, tolerance=FINITE),
    ],
    "glu": [
        call("F.glu", F.glu, X),
        call("SwiGLU of a joined product", chunked(F.silu), X),
        call("GEGLU of a joined product", chunked(F.gelu), X, tolerance=FINITE),
        call("GEGLU by tanh", chunked(new_gelu), X, tolerance=FINITE),
        call("SwiGLU of two products", lambda a, b: F.silu(a) * b, X, X),
    ],
    "batch_normalization": [
        module("a convolution and nn.BatchNorm2d", Chain(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)), (2, 2, 5, 5)),
        module("a convolution without bias, nn.BatchNorm2d and relu",
               Chain(nn.Conv2d(2, 3, 1, bias=False), nn.BatchNorm2d(3), nn.ReLU()), (2, 2, 5, 5)),
        module("a transposed convolution and nn.BatchNorm2d", Chain(nn.ConvTranspose2d(2, 3, 2), nn.BatchNorm2d(3)),
               (2, 2, 3, 3)),
        module("nn.Linear and nn.BatchNorm1d", Chain(nn.Linear(4, 3), nn.BatchNorm1d(3)), (2, 4)),
    ],
    "quantized": [
        module("a quantised convolution", Fake(nn.Conv2d(2, 3, 1, bias=False), False), (2, 2, 3, 3)),
        module("a quantised convolution by channel", Fake(nn.Conv2d(2, 3, 1, bias=False), True), (2, 2, 3, 3)),
        module("a quantised product", Fake(nn.Linear(4, 3, bias=False), False), (2, 4)),
        module("a quantised product by channel", Fake(nn.Linear(4, 3, bias=False), True), (2, 4)),
    ],
    "rotary_embedding": [
        Idea("the rotary embedding of Llama", Llama(8), (torch.randn(2, 3, 5, 8), torch.arange(5)[None].repeat(2, 1)),
             {"x0": {0: "n", 2: "s"}, "x1": {0: "n", 1: "s"}}),
        Idea("the rotary embedding of Llama, one row of positions", Llama(8),
             (torch.randn(2, 3, 5, 8), torch.arange(5)[None])),
        Idea("rotated halves by tables of all positions", Cached(8), (torch.randn(2, 3, 5, 8),)),
        call("rotated halves", rope, (2, 3, 5, 8), (1, 5, 8), (1, 5, 8)),
        call("rotated halves of unknown length", rope, (2, 3, 5, 8), (2, 5, 8), (2, 5, 8),
             dynamic={"x0": {0: "n", 2: "s"}, "x1": {0: "n", 1: "s"}, "x2": {0: "n", 1: "s"}}),
        call("a part of the head rotated", rope_parts, (2, 3, 5, 16), (5, 8), (5, 8)),
    ],
    "attention": [
        call("attention, scores divided", written_attention(False), *HEADS, dynamic=BOTH, tolerance=FINITE),
        call("attention, the query scaled", written_attention(True), *HEADS, tolerance=FINITE),
        call("attention with a mask added", masked_attention, *HEADS, (2, 1, 1, 5), dynamic=BOTH | {"x3": {0: "n", 3: "s"}},
             tolerance=FINITE),
        call("attention with a mask filled", filled_attention, *HEADS, (2, 1, 1, 5), tolerance=FINITE),
        call("attention of T5", t5_attention, *HEADS, (1, 2, 5, 5), tolerance=FINITE),
        call("scaled_dot_product_attention", F.scaled_dot_product_attention, *HEADS, dynamic=BOTH, tolerance=FINITE),
        call("scaled_dot_product_attention with a mask", lambda q, k, v, m: F.scaled_dot_product_attention(
            q, k, v, attn_mask=m), *HEADS, (2, 1, 5, 5), tolerance=FINITE),
        call("scaled_dot_product_attention with a mask of bools", lambda q, k, v, m: F.scaled_dot_product_attention(
            q, k, v, attn_mask=m > 0), *HEADS, (2, 1, 5, 5), tolerance=FINITE),
        call("causal scaled_dot_product_attention", lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, is_causal=True), *HEADS, tolerance=FINITE),
    ],
    "attention_blocks": [
        masked(module("BERT's attention", Bert(8, 2, True, False), X, (2, 3), dynamic=TOKENS, tolerance=FINITE)),
        masked(module("BERT's attention by scaled_dot_product_attention", Bert(8, 2, True, True), X, (2, 3),
                      dynamic=TOKENS, tolerance=FINITE)),
        module("ViT's attention", Bert(8, 2, False, False), X, tolerance=FINITE),
        module("ViT's attention by scaled_dot_product_attention", Bert(8, 2, False, True), X, tolerance=FINITE),
        module("attention of Whisper's encoder", Whisper(8, 2), X, tolerance=FINITE),
        module("attention of Whisper's encoder by bmm", OldWhisper(8, 2), X, tolerance=FINITE),
        module("nn.MultiheadAttention", MultiHead(8, 2), X, tolerance=FINITE),
    ],
}
