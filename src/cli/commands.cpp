// SPDX-License-Identifier: MIT
#include "cli/commands.h"

#include <array>

#include "cli/compile.h"

namespace lathe::cli {
namespace {

constexpr auto kCommands = std::to_array<Command>({
    {"inspect", "Prints the program of a model.",
     "lathe inspect examples/digits/digits.onnx --stop-after canonical", inspect},
    {"run", "Runs a model once and prints or writes its outputs.",
     "lathe run examples/digits/digits.onnx --input examples/digits/seven.png "
     "--labels examples/digits/labels.txt --top 3",
     run},
    {"perf", "Measures latency, throughput and the time of each kernel.",
     "lathe perf examples/digits/digits.onnx --fill batch=8 --iterations 50 --json", perf},
    {"compile", "Writes a compiled file, which starts at once wherever a model is taken.",
     "lathe compile examples/digits/digits.onnx -o build/digits.lathe", compile_file},
    {"explain", "Prints the kernel of each instruction and the reason for its choice.",
     "lathe explain examples/digits/digits.onnx --target cpu", explain},
    {"verify",
     "Compares every stage of compilation with the imported program, and with stored outputs.",
     "lathe verify examples/digits/digits.onnx --cases 5", verify},
    {"generate", "Continues a prompt with the language model of a folder.",
     "lathe generate examples/counting --ids 3,4 --max-new-tokens 5 --json", generate},
    {"chat", "Holds a conversation with the language model of a folder.",
     "lathe chat examples/counting <<< 'one two three'", chat},
    {"embed", "Prints an embedding of each line of standard input.",
     "lathe embed examples/encoder <<< 'The lathe cuts metal.'", embed},
    {"tokenize", "Encodes the text on standard input to token ids.",
     "lathe tokenize examples/tokenizer --lines <<< 'Hello, world!'", tokenize},
    {"detokenize", "Decodes the token ids on standard input to text.",
     "lathe detokenize examples/tokenizer <<< '[40, 73, 1]'", detokenize},
    {"render-chat", "Renders the messages on standard input to a prompt by a chat template.",
     "lathe render-chat examples/tokenizer <<< '[{\"role\": \"user\", \"content\": \"Hi\"}]'",
     render_chat},
    {"ops", "Lists the ops, or describes one.", "lathe ops matmul", ops},
    {"doctor", "Prints version, machine and options, or checks a model folder.", "lathe doctor",
     doctor},
});

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace lathe::cli
