# SPDX-License-Identifier: MIT
"""lathe.genai: the semantics of ONNX Runtime GenAI, whose results are written here."""

import asyncio
import json
import pathlib
import subprocess
import tempfile
import threading

import package

package.find()

import numpy as np

import lathe
import lathe.genai as og

COUNTING = str(package.ROOT / "examples/counting")
STORIES = package.SHARED / "models/llm/stories260k-onnx"
# Greedy tokens of ONNX Runtime GenAI 0.18 for "Once upon a time" and "one".
ONCE = [403, 407, 261, 378, 432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426, 338]
ONE = [353, 411, 0, 0, 328, 426, 410, 447, 419, 366, 382, 276, 273, 421]
SECOND_BEAM = [403, 407, 261, 378, 432, 383, 286, 261, 376, 268, 414, 422]


def stories():
    if not STORIES.exists():
        raise package.Skip(f"{STORIES} is not present")
    return og.Model(str(STORIES))


def generate(model, tokens, **options):
    params = og.GeneratorParams(model)
    params.set_search_options(**options)
    generator = og.Generator(model, params)
    generator.append_tokens(tokens)
    while not generator.is_done():
        generator.generate_next_token()
    return generator


def test_the_program_of_the_documentation():
    model = og.Model(COUNTING)
    tokenizer = og.Tokenizer(model)
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=8)
    input_tokens = tokenizer.encode("one two")
    generator = og.Generator(model, params)
    generator.append_tokens(input_tokens)
    while not generator.is_done():
        generator.generate_next_token()
    output = tokenizer.decode(generator.get_sequence(0))
    assert output.startswith("one two three four five"), output


def test_greedy_tokens_equal_those_of_onnxruntime_genai():
    model = stories()
    tokens = og.Tokenizer(model).encode("Once upon a time")
    assert tokens.dtype == np.int32 and tokens.tolist() == ONCE[:4]
    generator = generate(model, tokens, max_length=16)
    assert generator.get_sequence(0).tolist() == ONCE and generator.token_count() == 16
    package.raises(RuntimeError, generator.generate_next_token)
    generator.rewind_to(3)
    assert generator.token_count() == 3 and not generator.is_done()
    generator.append_tokens(tokens[:2])
    generator.generate_next_token()
    assert generator.get_sequence(0).tolist() == [403, 407, 261, 403, 407, 261]


def test_batches_are_padded_at_the_end():
    model = stories()
    tokenizer = og.Tokenizer(model)
    batch = tokenizer.encode_batch(["Once upon a time", "one"])
    assert batch.as_numpy().tolist() == [ONCE[:4], ONE[:4]] and batch.shape() == [2, 4]
    assert tokenizer.decode_batch(batch) == ["Once upon a time", "one"]
    generator = generate(model, batch, max_length=14, batch_size=2)
    assert generator.get_sequence(0).tolist() == ONCE[:14]
    assert generator.get_sequence(1).tolist() == ONE
    package.raises(RuntimeError, lambda: generator.append_tokens(batch))
    generator.rewind_to(0)
    generator.append_tokens(batch)
    generator.generate_next_token()
    assert generator.get_next_tokens().tolist() == [432, 328]


def test_beams_equal_those_of_onnxruntime_genai():
    model = stories()
    generator = generate(model, np.array(ONCE[:4], np.int32), num_beams=2, num_return_sequences=2,
                         max_length=12)
    assert generator.get_sequence(0).tolist() == ONCE[:12]
    assert generator.get_sequence(1).tolist() == SECOND_BEAM


def test_sequences_of_a_batch_are_those_of_its_prompts_alone():
    model = stories()
    prompts = [np.array(ONCE[:4], np.int32), np.array(ONE[:2], np.int32)]
    batch = np.array([ONCE[:4], ONE[:4]], np.int32)
    searches = [{"num_beams": 3}, {"num_beams": 3, "num_return_sequences": 2},
                {"do_sample": True, "top_k": 20, "random_seed": 1, "num_return_sequences": 2}]
    for options in searches:
        both = generate(model, batch, max_length=12, batch_size=2, **options)
        count = options.get("num_return_sequences", 1)
        alone = generate(model, prompts[0], max_length=12, **options)
        for index in range(count):
            assert both.get_sequence(index).tolist() == alone.get_sequence(index).tolist(), options
            padded = both.get_sequence(count + index).tolist()
            assert padded[:4] == ONE[:4] and len(padded) > 4, padded
        if "num_beams" in options:  # draws depend on a prompt's place
            alone = generate(model, prompts[1], max_length=10, **options)
            assert padded[4:] == alone.get_sequence(count - 1).tolist()[2:], options
        assert both.token_count() == both.get_sequence(0).size
        package.raises(RuntimeError, lambda: both.get_sequence(2 * count))


def test_tokens_of_a_zoo_equal_those_of_onnxruntime_genai():
    """genai_vectors.json: tokens of ONNX Runtime GenAI 0.18 for a text and its first tokens."""
    vectors = json.loads((package.ROOT / "tests/python/genai_vectors.json").read_text())
    zoo = package.SHARED / "models/zoo"
    if not zoo.exists():
        raise package.Skip(f"{zoo} is not present")
    for folder, expected in vectors.items():
        model = og.Model(str(zoo / folder))
        assert og.Tokenizer(model).encode("Hello there, one two").tolist() == expected["enc"], folder
        ids = expected["enc"][:8]
        lengths = {"max_length": len(ids) + 12}
        got = {
            "greedy": [generate(model, ids, **lengths).get_sequence(0)],
            "pen": [generate(model, ids, **lengths, repetition_penalty=1.3, no_repeat_ngram_size=2,
                             min_length=len(ids) + 3).get_sequence(0)],
        }
        beams = generate(model, ids, max_length=len(ids) + 8, num_beams=3, num_return_sequences=2)
        batch = generate(model, ids[:4] + ids[2:6], max_length=12, batch_size=2)
        got["beams"] = [beams.get_sequence(i) for i in (0, 1)]
        got["batch"] = [batch.get_sequence(i) for i in (0, 1)]
        for name, sequences in got.items():
            wanted = expected[name] if name in ("beams", "batch") else [expected[name]]
            assert [s.tolist() for s in sequences] == wanted, (folder, name)


def test_checkpoints_and_gguf_files_open():
    zoo = package.SHARED / "models/zoo"
    if not zoo.exists():
        raise package.Skip(f"{zoo} is not present")
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["tar", "--zstd", "-xf", zoo / "gguf.tar.zst", "-C", work, "gguf/expected.json",
                        "gguf/llama-F32.gguf"], check=True)
        made = json.loads(pathlib.Path(work, "gguf/expected.json").read_text())
        ids = made["gguf_prompt"]
        tokens = made["files"]["llama-F32.gguf"]["llama_cpp"]["tokens"]
        onnx = og.Model(str(zoo / "llama/fp32"))
        for path in (str(zoo / "llama/hf"), f"{work}/gguf/llama-F32.gguf"):
            model = og.Model(path)
            params = og.GeneratorParams(model)
            params.set_search_options(max_length=200)
            generator = og.Generator(model, params)
            if path.endswith(".gguf"):  # the first token of llama.cpp is an end token
                generator.append_tokens(ids + tokens[:-1])
                best = generator.get_output("logits")[0, -len(tokens):].argmax(-1)
                assert best.tolist() == tokens
            else:
                expected = generate(onnx, ids, max_length=100).get_sequence(0).tolist()
                assert generate(model, ids, max_length=100).get_sequence(0).tolist() == expected
            for tokenizer in (og.Tokenizer(model), og.Tokenizer(path)):
                assert tokenizer.eos_token_ids.tolist() == model._core.end_tokens(), path
                assert tokenizer.bos_token_id >= 0 and tokenizer.encode("Hello there").size > 0


def test_weights_are_quantised_as_they_are_loaded():
    folder = package.SHARED / "models/zoo/llama/hf"
    if not folder.exists():
        raise package.Skip(f"{folder} is not present")

    def last_logits(**options):
        model = og.Model(str(folder), threads=1, target="cpu", **options)
        generator = og.Generator(model, og.GeneratorParams(model))
        generator.append_tokens([1, 5, 9, 13])
        return generator.get_output("logits")[0, -1]

    exact = last_logits(compute="f32")
    distances = {how: np.abs(last_logits(quantize=how, compute="f32") - exact).max()
                 for how in ("none", "int8", "int4", "int4,block=128")}
    assert distances["none"] == 0
    assert 0 < distances["int8"] < distances["int4"] < distances["int4,block=128"], distances
    for wrong in ({"quantize": "int3"}, {"compute": "int3"}, {"threads": -1}, {"target": "none"}):
        package.raises(lathe.Error, lambda: og.Model(str(folder), **wrong))


def test_the_end_token_is_not_part_of_a_sequence():
    model = stories()
    tokenizer = og.Tokenizer(model)
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=20)
    generator = og.Generator(model, params)
    generator.append_tokens(ONCE[:4])
    logits = generator.get_logits()
    assert logits.shape == (1, 1, 512) and logits.dtype == np.float32
    logits[:] = -100
    logits[..., int(tokenizer.eos_token_ids[0])] = 100
    generator.set_logits(logits)
    generator.generate_next_token()
    assert generator.is_done() and generator.get_sequence(0).tolist() == ONCE[:4]
    assert generator.token_count() == 4
    generator.append_tokens(ONCE[4:6])
    generator.generate_next_token()
    assert generator.get_sequence(0).tolist() == ONCE[:7]


def test_iteration_yields_tokens():
    model = stories()
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=10)
    generator = og.Generator(model, params)
    generator.append_tokens(ONCE[:4])
    assert list(generator) == ONCE[4:10]

    async def collect():
        again = og.Generator(model, params)
        again.append_tokens(ONCE[:4])
        return [token async for token in again]

    assert asyncio.run(collect()) == ONCE[4:10]


def test_seeded_sampling_repeats_itself():
    model = stories()
    options = {"do_sample": True, "top_k": 20, "top_p": 0.9, "temperature": 0.8, "max_length": 30}
    first = generate(model, ONCE[:4], random_seed=7, **options).get_sequence(0)
    again = generate(model, ONCE[:4], random_seed=7, **options).get_sequence(0)
    others = [generate(model, ONCE[:4], random_seed=seed, **options).get_sequence(0).tolist()
              for seed in (1, 2, 3)]
    assert (first == again).all() and any(other != first.tolist() for other in others)


def test_streams_return_complete_characters():
    model = stories()
    tokenizer = og.Tokenizer(model)
    stream = tokenizer.create_stream()
    pieces = [stream.decode(token) for token in ONCE]
    assert "".join(pieces).strip() == tokenizer.decode(ONCE).strip()
    assert tokenizer.to_token_id("<s>") == 1
    assert tokenizer.to_token_id("no such token") == -1
    tokenizer.update_options(add_special_tokens="true")
    assert tokenizer.encode("Once").tolist()[0] == tokenizer.bos_token_id


def test_search_options_have_the_names_and_values_of_onnxruntime_genai():
    params = og.GeneratorParams(og.Model(COUNTING))
    params.set_search_options(top_k=5, do_sample=True, batch_size=3)
    options = params.get_search_options()
    assert options["top_k"] == 5.0 and options["do_sample"] is True and options["batch_size"] == 3.0
    assert {"max_length", "num_beams", "past_present_share_buffer", "random_seed"} <= set(options)
    package.raises(RuntimeError, lambda: params.set_search_options(foo=1), "foo")
    package.raises(RuntimeError, lambda: params.set_search_options(top_p=3))
    package.raises(RuntimeError, lambda: params.set_search_options(batch_size=99), "99")


def test_chat_templates_render():
    tokenizer = og.Tokenizer(COUNTING)
    messages = json.dumps([{"role": "user", "content": "one two"}])
    assert "one two" in tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    text = tokenizer.apply_chat_template(
        messages, template_str="{{ messages[0].content }}{{ tools | length }}", tools='[{"a": 1}]')
    assert text == "one two1"
    package.raises(ValueError, lambda: tokenizer.apply_chat_template("no json"))


def test_models_from_memory_and_overlays():
    config = og.Config("")
    for path in (package.ROOT / "examples/counting").iterdir():
        if path.suffix in (".json", ".onnx", ".jinja"):
            config.add_model_data(path.name, path.read_bytes())
    config.overlay('{"search": {"max_length": 5}}')
    model = og.Model(config)
    generator = og.Generator(model, og.GeneratorParams(model))
    generator.append_tokens(og.Tokenizer(model).encode("one two"))
    for _ in generator:
        pass
    assert generator.token_count() == 5


def test_migraphx_folders_run_on_the_best_target():
    config = og.Config(COUNTING)
    config.clear_providers()
    config.append_provider("MIGraphX")
    config.set_provider_option("MIGraphX", "device_id", "0")
    config.set_provider_option("MIGraphX", "fp16_enable", "1")
    assert og.Model(config).device_type in ("CPU", "GPU", "REF")


def test_outputs_and_inputs_by_name():
    model = stories()
    generator = generate(model, ONCE[:4], max_length=6)
    assert generator.get_output("logits").shape[-1] == 512
    assert generator.get_input("input_ids").tolist() == [ONCE[:6]]
    package.raises(RuntimeError, lambda: generator.get_output("none"), "none")
    tensors = og.NamedTensors()
    tensors["a"] = np.ones(3, np.float32)
    assert "a" in tensors and len(tensors) == 1 and tensors.keys() == ["a"]
    assert tensors["a"].as_numpy().tolist() == [1, 1, 1] and tensors["a"].shape() == [3]
    del tensors["a"]
    assert len(tensors) == 0


def test_the_output_logits_has_a_row_for_each_token_of_the_last_run():
    model = stories()
    def begin(tokens, **options):
        params = og.GeneratorParams(model)
        params.set_search_options(**options)
        generator = og.Generator(model, params)
        generator.append_tokens(tokens)
        return generator
    generator = begin(ONCE[:5])
    rows = generator.get_output("logits")
    assert rows.shape == (1, 5, 512) and rows.dtype == np.float32
    for count in range(1, 6):
        np.testing.assert_allclose(
            rows[:, count - 1 : count], begin(ONCE[:count]).get_logits(), rtol=1e-4, atol=1e-4)
    generator.generate_next_token()  # samples: the last run is still that of five tokens
    np.testing.assert_array_equal(generator.get_output("logits"), rows)
    generator.generate_next_token()
    assert generator.get_output("logits").shape == (1, 1, 512)
    generator.append_tokens([7, 8, 9])
    assert generator.get_output("logits").shape == (1, 3, 512)
    np.testing.assert_allclose(
        generator.get_output("logits")[:, -1:], generator.get_logits(), rtol=1e-4, atol=1e-4)
    assert begin([ONCE[:3]] * 2, batch_size=2).get_output("logits").shape == (2, 3, 512)
    beams = begin(ONCE[:3], num_beams=3)
    assert beams.get_output("logits").shape == (3, 3, 512)
    logits = beams.get_logits()
    logits[:] = 0
    logits[:, :, [70, 80, 90]] = 9
    beams.set_logits(logits)
    beams.generate_next_token()
    assert sorted(beams.get_next_tokens().tolist()) == [70, 80, 90]
    assert beams.get_sequence(0).tolist() == ONCE[:3] + [beams.get_next_tokens()[0]]
    assert beams.token_count() == 4
    full = begin(ONCE[:5], max_length=5)  # no room for a token, but for logits
    np.testing.assert_array_equal(full.get_output("logits"), rows)
    assert full.is_done() and full.get_sequence(0).tolist() == ONCE[:5]
    package.raises(RuntimeError, full.generate_next_token, "max_length")
    full.rewind_to(3)
    full.append_tokens(ONCE[3:4])
    full.generate_next_token()
    assert full.is_done() and full.get_sequence(0).tolist() == ONCE[:5]
    chunked = begin(ONCE * 4, chunk_size=20).get_output("logits")
    np.testing.assert_allclose(chunked, begin(ONCE * 4).get_output("logits"), rtol=1e-3, atol=1e-3)


def test_generation_ends_from_another_thread():
    model = stories()
    params = og.GeneratorParams(model)
    generator = og.Generator(model, params)
    generator.append_tokens(ONCE[:4])
    thread = threading.Thread(target=generator.set_runtime_option, args=("terminate_session", "1"))
    thread.start()
    thread.join()
    package.raises(RuntimeError, generator.generate_next_token)
    generator.set_runtime_option("terminate_session", "0")
    generator.generate_next_token()
    assert generator.get_sequence(0).tolist() == ONCE[:5]


def test_bad_calls_are_errors():
    model = og.Model(COUNTING)
    generator = og.Generator(model, og.GeneratorParams(model))
    for call in (lambda: generator.append_tokens([]), lambda: generator.append_tokens([10**8]),
                 lambda: generator.get_sequence(9), lambda: og.Model("/none"),
                 lambda: og.Model(COUNTING).create_multimodal_processor(),
                 lambda: og.Images.open("x.png"), lambda: og.Engine(model),
                 lambda: og.Adapters(model), lambda: generator.set_logits(np.zeros(3)),
                 lambda: og.GeneratorParams(model).set_guidance("regex", "a")):
        package.raises((RuntimeError, lathe.Unsupported), call)
    package.raises(TypeError, lambda: og.Model(3))


package.run(globals())
