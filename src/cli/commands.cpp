// SPDX-License-Identifier: MIT
#include "cli/commands.h"

#include <array>

namespace lathe::cli {
namespace {

constexpr auto kCommands = std::to_array<Command>({
    {"inspect", "Shows the program in a model.",
     "lathe inspect examples/digits/digits.onnx --stop-after canonical", inspect},
    {"run", "Runs a model once and prints or writes its outputs.",
     "lathe run examples/digits/digits.onnx --input examples/digits/seven.png "
     "--labels examples/digits/labels.txt --top 3",
     run},
    {"perf", "Measures how long a model takes, and where the time goes.",
     "lathe perf examples/digits/digits.onnx --fill batch=8 --iterations 50 --json", perf},
    {"explain", "Says which kernel runs each instruction, and why no other.",
     "lathe explain examples/digits/digits.onnx --target cpu", explain},
    {"verify",
     "Compares the program after every stage with the one imported, and with stored outputs.",
     "lathe verify examples/digits/digits.onnx --cases 5", verify},
    {"generate", "Continues a prompt with the language model of a folder.",
     "lathe generate examples/counting --ids 3,4 --max-new-tokens 5 --json", generate},
    {"chat", "Talks with the language model of a folder.",
     "lathe chat examples/counting <<< 'one two three'", chat},
    {"tokenize", "Turns text on standard input into a tokenizer's ids.",
     "lathe tokenize examples/tokenizer --lines <<< 'Hello, world!'", tokenize},
    {"detokenize", "Turns ids on standard input into text.",
     "lathe detokenize examples/tokenizer <<< '[40, 73, 1]'", detokenize},
    {"render-chat", "Turns messages on standard input into the text that a model reads.",
     "lathe render-chat examples/tokenizer <<< '[{\"role\": \"user\", \"content\": \"Hi\"}]'",
     render_chat},
    {"ops", "Lists the ops of programs, or describes one.", "lathe ops matmul", ops},
    {"doctor", "Says what this program, this machine and this environment are.", "lathe doctor",
     doctor},
});

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace lathe::cli
