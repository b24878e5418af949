# SPDX-License-Identifier: MIT
"""Programs run with ONNX Runtime GenAI and with lathe.genai: the same code, the same results. `make
test-python-peers` runs it: GenAI is not among the packages of the tests."""

import json

import package

package.find()

import numpy as np
import onnxruntime_genai

import lathe.genai

MODELS = package.SHARED / "models"
FOLDERS = ("llm/stories260k-onnx", "zoo/llama/fp32", "zoo/qwen2/fp32", "zoo/qwen3/fp32")
# Tokens of all of them: the random vocabularies lack characters.
PROMPT, QUESTION, OTHER = [403, 407, 261, 378], [353, 411], [426, 353]


def compare(program, folders=FOLDERS):
    """Runs a program of a library and a folder with both; its results are plain values."""
    ran = 0
    for name in folders:
        if not (MODELS / name / "genai_config.json").exists():
            continue
        ran += 1
        theirs, ours = (program(og, str(MODELS / name)) for og in (onnxruntime_genai, lathe.genai))
        assert len(theirs) == len(ours) > 0
        for expected, got in zip(theirs, ours):
            if isinstance(expected, np.ndarray):
                np.testing.assert_allclose(got, expected, 1e-4, 1e-4, err_msg=name)
            else:
                assert got == expected, (name, got, expected)
    if not ran:
        raise package.Skip(f"none of {', '.join(folders)} is present")


def begin(og, folder, **options):
    model = og.Model(folder)
    tokenizer = og.Tokenizer(model)
    params = og.GeneratorParams(model)
    params.set_search_options(**options)
    return model, tokenizer, og.Generator(model, params)


def plain(values):
    return [int(value) for value in np.asarray(values).reshape(-1)]


def test_streamed_answers():
    def program(og, folder):
        _, tokenizer, generator = begin(og, folder, max_length=32)
        stream = tokenizer.create_stream()
        generator.append_tokens(tokenizer.encode("Once upon a time"))
        pieces = []
        while not generator.is_done():
            generator.generate_next_token()
            pieces.append(stream.decode(generator.get_next_tokens()[0]))
        sequence = generator.get_sequence(0)
        return ["".join(pieces).strip(), plain(sequence), tokenizer.decode(sequence).strip()]

    compare(program, FOLDERS[:1])


def test_batches():
    def program(og, folder):
        _, tokenizer, generator = begin(og, folder, max_length=20, batch_size=2)
        generator.append_tokens(tokenizer.encode_batch(["Once upon a time", "one"]))
        steps = []
        while not generator.is_done():
            generator.generate_next_token()
            steps.append(plain(generator.get_next_tokens()))
        return [steps, plain(generator.get_sequence(0)), plain(generator.get_sequence(1))]

    compare(program, FOLDERS[:1])


def test_beams():
    def program(og, folder):
        _, tokenizer, generator = begin(og, folder, max_length=16, num_beams=3, num_return_sequences=3,
                                        length_penalty=0.8)
        generator.append_tokens(PROMPT)
        while not generator.is_done():
            generator.generate_next_token()
        return [plain(generator.get_sequence(index)) for index in range(3)]

    compare(program)


def test_penalties_and_lengths():
    def program(og, folder):
        _, tokenizer, generator = begin(og, folder, max_length=30, min_length=25, repetition_penalty=1.2,
                                        no_repeat_ngram_size=3)
        generator.append_tokens(PROMPT)
        while not generator.is_done():
            generator.generate_next_token()
        return [plain(generator.get_sequence(0))]

    compare(program)


def test_a_rewound_chat():
    def program(og, folder):
        _, tokenizer, generator = begin(og, folder, max_length=40)
        generator.append_tokens(PROMPT)
        answers = []
        for question in (QUESTION, OTHER, QUESTION):
            generator.rewind_to(len(PROMPT))
            generator.append_tokens(question)
            for _ in range(8):
                if not generator.is_done():
                    generator.generate_next_token()
            answers += [plain(generator.get_sequence(0)), int(generator.token_count())]
        return answers

    compare(program)


def test_turns_of_a_chat():
    def program(og, folder):
        _, tokenizer, generator = begin(og, folder, max_length=60)
        seen = []
        for turn in (PROMPT, QUESTION, OTHER):
            generator.append_tokens(turn)
            for _ in range(6):
                generator.generate_next_token()
            generator.get_logits()  # runs the last token, which GenAI's next append would skip
            seen.append(plain(generator.get_sequence(0)))
        return seen

    compare(program, FOLDERS[1:])  # GenAI refuses a second append to the first


def test_logits():
    def program(og, folder):
        _, tokenizer, generator = begin(og, folder, max_length=20)
        generator.append_tokens(PROMPT)
        first = np.array(generator.get_logits())
        forced = np.full_like(first, -1e9)
        forced[..., 9] = 1
        generator.set_logits(forced)
        generator.generate_next_token()
        tokens = plain(generator.get_next_tokens())
        second = np.array(generator.get_logits())
        return [first, second, tokens, first.dtype.name, first.shape]

    compare(program)


def test_models_from_memory():
    def program(og, folder):
        with open(f"{folder}/genai_config.json", encoding="utf-8") as file:
            name = json.load(file)["model"]["decoder"]["filename"]
        config = og.Config(folder)
        with open(f"{folder}/{name}", "rb") as file:
            data = file.read()
        config.add_model_data(name, data)
        model = og.Model(config)
        params = og.GeneratorParams(model)
        params.set_search_options(max_length=20)
        generator = og.Generator(model, params)
        generator.append_tokens(og.Tokenizer(model).encode("Once upon a time"))
        while not generator.is_done():
            generator.generate_next_token()
        return [plain(generator.get_sequence(0))]

    compare(program, FOLDERS[:1])


def test_chat_templates_with_tools():
    template = ("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
                "{% if tools %}[{% for t in tools %}{{ t | tojson }},{% endfor %}]{% endif %}"
                "{% if add_generation_prompt %}<assistant>{% endif %}")
    messages = json.dumps([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}])
    tools = json.dumps([{"name": "add", "description": "adds", "parameters": {
        "a": {"description": "the first", "type": "int"}, "b": {"type": "int"}}}])

    def program(og, folder):
        tokenizer = og.Tokenizer(og.Model(folder))
        render = lambda **options: tokenizer.apply_chat_template(messages, template_str=template, **options)
        return [render(add_generation_prompt=True), render(add_generation_prompt=False),
                render(tools=tools, add_generation_prompt=True)]

    compare(program, FOLDERS[:2])


def test_samples_of_both_have_one_distribution():
    """A chi-square test of both libraries' counts; p > 1e-3 is a deviation below 3.09."""
    counts = []
    for og in (onnxruntime_genai, lathe.genai):
        if not (MODELS / FOLDERS[0]).exists():
            raise package.Skip(f"{FOLDERS[0]} is not present")
        model = og.Model(str(MODELS / FOLDERS[0]))
        ids = og.Tokenizer(model).encode("Once upon a time there was a")
        seen = np.zeros(512)
        for seed in range(1, 1501):
            params = og.GeneratorParams(model)
            params.set_search_options(do_sample=True, temperature=0.9, top_k=30, top_p=0.95, max_length=40,
                                      random_seed=seed)
            generator = og.Generator(model, params)
            generator.append_tokens(ids)
            generator.generate_next_token()
            seen[generator.get_next_tokens()[0]] += 1
        counts.append(seen)
    total = counts[0] + counts[1]
    frequent = total >= 10
    rows = [np.append(c[frequent], c[~frequent].sum()) for c in counts]
    kept = rows[0] + rows[1] > 0
    a, b = rows[0][kept], rows[1][kept]
    x, k = float(((a - b) ** 2 / (a + b)).sum()), len(a) - 1
    deviation = ((x / k) ** (1 / 3) - 1 + 2 / (9 * k)) / (2 / (9 * k)) ** 0.5
    assert k >= 3 and deviation < 3.09, (x, k, deviation)


def test_error_classes():
    def program(og, folder):
        model, tokenizer, generator = begin(og, folder, max_length=8)
        params = og.GeneratorParams(model)
        calls = [lambda: og.Model("/none"), lambda: params.set_search_options(nothing=1),
                 lambda: generator.append_tokens([]), lambda: generator.rewind_to(99),
                 lambda: og.Tokenizer("/none"), lambda: generator.append_tokens(np.zeros(9, np.int32))]
        seen = []
        for call in calls:
            try:
                call()
                seen.append("fine")
            except (RuntimeError, TypeError, ValueError) as error:
                seen.append(next(kind.__name__ for kind in (TypeError, RuntimeError, ValueError)
                                 if isinstance(error, kind)))
        return seen

    compare(program, FOLDERS[:2])


package.run(globals())
