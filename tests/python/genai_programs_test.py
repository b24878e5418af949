# SPDX-License-Identifier: MIT
"""Programs adapted from published examples of ONNX Runtime GenAI: chats, sampling, encoder-decoders."""

import json
import math
import pathlib
import shutil
import subprocess
import tempfile

import package

package.find()

import numpy as np

import lathe.genai as og

STORIES = package.SHARED / "models/llm/stories260k-onnx"
WHISPER = package.SHARED / "models/zoo/whisper.tar.zst"


def stories():
    if not STORIES.exists():
        raise package.Skip(f"{STORIES} is not present")
    return og.Model(str(STORIES))


def generator_of(model, **options):
    params = og.GeneratorParams(model)
    params.set_search_options(**options)
    return og.Generator(model, params)


def finish(generator):
    while not generator.is_done():
        generator.generate_next_token()
    return generator.get_sequence(0).tolist()


def test_a_folder_of_migraphx_runs():
    """The program of the documentation on a folder whose provider is MIGraphX."""
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work, "model")
        shutil.copytree(package.ROOT / "examples/counting", folder)
        config = json.loads((folder / "genai_config.json").read_text())
        config["model"]["decoder"]["session_options"] = {
            "provider_options": [{"MIGraphX": {"device_id": "0", "fp16_enable": "1"}}]}
        (folder / "genai_config.json").write_text(json.dumps(config))
        model = og.Model(str(folder))
        tokenizer = og.Tokenizer(model)
        params = og.GeneratorParams(model)
        params.set_search_options(max_length=12)
        input_tokens = tokenizer.encode("one two")
        generator = og.Generator(model, params)
        generator.append_tokens(input_tokens)
        while not generator.is_done():
            generator.generate_next_token()
        output = tokenizer.decode(generator.get_sequence(0))
    assert output.startswith("one two three four five six"), output


def test_questions_are_answered_as_a_stream():
    model = stories()
    tokenizer = og.Tokenizer(model)
    stream = tokenizer.create_stream()
    generator = generator_of(model, max_length=40)
    generator.append_tokens(tokenizer.encode("Once upon a time"))
    pieces = []
    while not generator.is_done():
        generator.generate_next_token()
        pieces.append(stream.decode(generator.get_next_tokens()[0]))
    new = generator.get_sequence(0)[len(tokenizer.encode("Once upon a time")):]
    assert len(pieces) == len(new) > 10
    assert "".join(pieces).strip() == tokenizer.decode(new).strip()


def test_a_chat_is_rewound_to_its_system_prompt():
    model = stories()
    tokenizer = og.Tokenizer(model)
    system, question = tokenizer.encode("Tom had a dog."), tokenizer.encode(" It was")
    generator = generator_of(model, max_length=40)
    generator.append_tokens(system)
    answers = []
    for _ in range(2):
        generator.rewind_to(len(system))
        generator.append_tokens(question)
        answers.append(finish(generator))
    assert answers[0] == answers[1]
    fresh = generator_of(model, max_length=40)
    fresh.append_tokens(np.concatenate([system, question]))
    assert finish(fresh) == answers[0]


def test_the_turns_of_a_chat_extend_one_sequence():
    model = stories()
    tokenizer = og.Tokenizer(model)
    generator = generator_of(model, max_length=60)
    tokens = []
    for turn in ("Once upon a time", " Then Lily", " The end"):
        ids = tokenizer.encode(turn)
        generator.append_tokens(ids)
        tokens += ids.tolist()
        for _ in range(8):
            generator.generate_next_token()
            tokens.append(int(generator.get_next_tokens()[0]))
        assert generator.get_sequence(0).tolist() == tokens
    fresh = generator_of(model, max_length=60)
    fresh.append_tokens(np.array(tokens[:-8], np.int32))
    for _ in range(8):
        fresh.generate_next_token()
    assert fresh.get_sequence(0).tolist() == tokens


def test_logits_may_be_replaced():
    model = stories()
    generator = generator_of(model, max_length=20)
    generator.append_tokens(og.Tokenizer(model).encode("Once upon a time"))
    for token in (7, 300, 12):
        logits = generator.get_logits()
        assert logits.shape == (1, 1, 512)
        forced = np.full_like(logits, -1e9)
        forced[..., token] = 1
        generator.set_logits(forced)
        generator.generate_next_token()
        assert generator.get_next_tokens().tolist() == [token]


def expected_distribution(logits, temperature, top_k, top_p):
    """Probabilities after temperature, top-k and top-p: the least tokens that reach top_p stay."""
    scaled = logits.astype(np.float64) / temperature
    order = np.argsort(-scaled, kind="stable")[:top_k]
    p = np.exp(scaled[order] - scaled[order[0]])
    p /= p.sum()
    kept = int(np.searchsorted(np.cumsum(p), top_p)) + 1
    out = np.zeros(len(logits))
    out[order[:kept]] = p[:kept] / p[:kept].sum()
    return out


def chi_square_deviation(counts, p):
    """The statistic of Pearson's test as a standard normal value (Wilson and Hilferty)."""
    draws = counts.sum()
    assert not counts[p == 0].any(), np.flatnonzero(counts * (p == 0))
    frequent = p * draws >= 5
    observed = np.append(counts[frequent], counts[~frequent].sum())
    expected = np.append(p[frequent], p[~frequent].sum()) * draws
    observed, expected = observed[expected > 0], expected[expected > 0]
    x, k = float(((observed - expected) ** 2 / expected).sum()), len(expected) - 1
    assert k >= 3, expected
    return ((x / k) ** (1 / 3) - 1 + 2 / (9 * k)) / math.sqrt(2 / (9 * k))


def test_samples_follow_their_distribution():
    """Seeded, so the verdict does not change; p > 1e-3 is a deviation below 3.09."""
    model = stories()
    ids = og.Tokenizer(model).encode("Once upon a time there was a")
    draws = 600 if package.is_sanitized() else 1200
    for temperature, top_k, top_p in ((1.0, 50, 1.0), (0.7, 8, 1.0), (1.5, 200, 0.9), (2.0, 512, 0.5)):
        counts, p = np.zeros(512), None
        for seed in range(1, draws + 1):
            generator = generator_of(model, do_sample=True, temperature=temperature, top_k=top_k,
                                     top_p=top_p, max_length=40, random_seed=seed)
            generator.append_tokens(ids)
            if p is None:
                p = expected_distribution(generator.get_logits().reshape(-1), temperature, top_k, top_p)
            generator.generate_next_token()
            counts[generator.get_next_tokens()[0]] += 1
        deviation = chi_square_deviation(counts, p)
        assert deviation < 3.09, (temperature, top_k, top_p, deviation)


def test_an_encoder_decoder_transcribes_features():
    if not WHISPER.exists():
        raise package.Skip(f"{WHISPER} is not present")
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["tar", "--zstd", "-xf", WHISPER, "-C", work], check=True)
        folder = pathlib.Path(work, "whisper")
        expected = json.loads((folder / "expected.json").read_text())
        row, step = np.meshgrid(np.arange(80), np.arange(3000), indexing="ij")
        mel = ((7919 * row + 104729 * step) % 1009) / 504.5 - 1
        inputs = og.NamedTensors()
        inputs["audio_features"] = mel.astype(np.float32)[None]
        for form in ("fp32", "int4"):
            tokens = expected[f"genai_{form}"]["tokens"][0]
            prompt = expected["prompt"]
            generator = generator_of(og.Model(str(folder / form)), max_length=len(prompt + tokens))
            generator.set_inputs(inputs)
            generator.append_tokens(prompt)
            assert finish(generator) == prompt + tokens, form


package.run(globals())
