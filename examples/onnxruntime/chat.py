# SPDX-License-Identifier: MIT
"""Answers one question with ONNX Runtime GenAI on Lathe.

usage: chat.py FOLDER QUESTION [TOKENS]     FOLDER has genai_config.json and a model; at most 128 tokens
"""

import json
import sys

import onnxruntime_ep_lathe
import onnxruntime_genai as og

onnxruntime_ep_lathe.register()
config = og.Config(sys.argv[1])
config.clear_providers()
config.append_provider("lathe")
model = og.Model(config)
tokenizer = og.Tokenizer(model)
messages = json.dumps([{"role": "user", "content": sys.argv[2]}])
prompt = tokenizer.encode(tokenizer.apply_chat_template(messages, add_generation_prompt=True))
params = og.GeneratorParams(model)
tokens = int(sys.argv[3]) if len(sys.argv) > 3 else 128
params.set_search_options(max_length=len(prompt) + tokens, do_sample=False)
generator = og.Generator(model, params)
generator.append_tokens(prompt)
stream = tokenizer.create_stream()
while not generator.is_done():
    generator.generate_next_token()
    print(stream.decode(generator.get_next_tokens()[0]), end="", flush=True)
print()
