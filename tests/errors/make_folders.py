# SPDX-License-Identifier: MIT
"""Makes wrong model folders: copies of examples/counting with one change each.

usage: make_folders.py FOLDER
"""

import copy
import json
import pathlib
import shutil
import sys

import onnx

COUNTING = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "counting"
FILES = ("genai_config.json", "model.onnx", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
POINTER = b"version https://git-lfs\noid sha256:00\nsize 540000000\n"


def changed(config, path, value):
    """The configuration with one member set; dots separate the path."""
    config = copy.deepcopy(config)
    *parents, name = path.split(".")
    place = config
    for parent in parents:
        place = place.setdefault(parent, {})
    place[name] = value
    return config


def configurations():
    """name: (path of a member, value)"""
    decoder = "model.decoder."
    providers = decoder + "session_options.provider_options"
    return {
        "unknown_type": ("model.type", "lama"),
        "no_type": ("model.type", None),
        "speech": ("model.type", "parakeet_tdt"),
        "unknown_key": (decoder + "head_sise", 16),
        "unknown_root_key": ("serch", {}),
        "speech_key": ("model.num_mels", 80),
        "wrong_kind": (decoder + "head_size", "16"),
        "too_many_layers": (decoder + "num_hidden_layers", 10 ** 15),
        "no_context": ("model.context_length", 0),
        "missing_file": (decoder + "filename", "decoder.onnx"),
        "outside_file": (decoder + "filename", "../words.txt"),
        "bad_provider": (providers, [{"warp": {}}]),
        "absent_device": (providers, [{"cuda": {"enable_cuda_graph": "1"}}]),
        "custom_ops": (decoder + "session_options.custom_ops_library", "ops.so"),
        "cache_names": (decoder + "inputs.past_key_names", "past.%d.k"),
        "token_name": (decoder + "inputs.input_ids", "tokens"),
        "logits_name": (decoder + "outputs.logits", "scores"),
        "end_outside": ("model.eos_token_id", 99),
        "end_kind": ("model.eos_token_id", "two"),
        "larger_vocabulary": ("model.vocab_size", 32),
        "search_key": ("search.top_q", 1),
        "search_value": ("search.top_p", 7),
        "draft": ("model.draft", {"filename": "draft.onnx"}),
        "no_decoder": ("model.decoder", None),
        "diversity": ("search.diversity_penalty", 0.5),
    }


def external(folder):
    """Moves the weights to model.onnx.data."""
    model = onnx.load(folder / "model.onnx")
    (folder / "model.onnx").unlink()
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    return folder / "model.onnx.data"


def make(root):
    def copy_of(name):
        folder = root / name
        folder.mkdir()
        for file in FILES:
            shutil.copy(COUNTING / file, folder / file)
        return folder

    copy_of("counting")
    config = json.loads((COUNTING / "genai_config.json").read_text())
    for name, (path, value) in configurations().items():
        (copy_of(name) / "genai_config.json").write_text(json.dumps(changed(config, path, value)))
    contents = {
        "pointer": ("model.onnx", POINTER),
        "no_json": ("genai_config.json", b'{"model": {"type": "llama",'),
        "pointer_config": ("genai_config.json", POINTER),
        "pointer_tokenizer": ("tokenizer.json", POINTER),
        "number_config": ("genai_config.json", b'{"model": {"type": "llama", "vocab_size": 1e999}}'),
        "cut_generation": ("generation_config.json", b'{"eos_token_id": '),
        "list_config": ("genai_config.json", b"[]"),
        "deep_config": ("genai_config.json", b'{"model": ' * 5000),
        "bad_tokenizer": ("tokenizer.json", b'{"model": {"type": "WordLevel"}}'),
        "generation_end": ("generation_config.json", b'{"eos_token_id": 99}'),
        "wrong_generation": ("generation_config.json", b'{"eos_token_id": "end"}'),
        "bad_template": ("chat_template.jinja", b"{% for m in messages %}{{ m.content }}"),
        "refusing_template": ("chat_template.jinja", b"{{ raise_exception('no system please') }}"),
    }
    for name, (file, content) in contents.items():
        (copy_of(name) / file).write_bytes(content)
    for name, file in (("no_config", "genai_config.json"), ("no_tokenizer", "tokenizer.json"),
                       ("no_template", "chat_template.jinja")):
        (copy_of(name) / file).unlink()
    external(copy_of("pointer_weights")).write_bytes(POINTER)
    external(copy_of("no_weights")).unlink()
    vision = changed(changed(config, "model.type", "lama"), "model.vision", {"filename": "vision.onnx"})
    (copy_of("unknown_type_vision") / "genai_config.json").write_text(json.dumps(vision))
    strange = copy_of("unknown_operator")
    model = onnx.load(strange / "model.onnx")
    model.graph.node[0].op_type = "GatherFast"
    onnx.save(model, strange / "model.onnx")
    vast = copy_of("vast_caches")
    model = onnx.load(vast / "model.onnx")
    for past in [value for value in model.graph.input if value.name.startswith("past")]:
        past.type.tensor_type.shape.dim[3].dim_param = "size"
    onnx.save(model, vast / "model.onnx")
    sizes = changed(config, "model.decoder.head_size", 10 ** 13)
    (vast / "genai_config.json").write_text(json.dumps(sizes))
    larger = copy_of("larger_tokenizer")
    tokenizer = json.loads((larger / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["sixteen"] = 16
    (larger / "tokenizer.json").write_text(json.dumps(tokenizer))


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
