// SPDX-License-Identifier: MIT
// Classifies a digit with the C++ interface.
//
// usage: embed examples/digits/digits.onnx < examples/embed/seven.txt     (64 numbers, row by row)
#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>

#include "lathe/lathe.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s MODEL < NUMBERS\n", argv[0]);
    return 2;
  }
  try {
    const lathe::Program program(argv[1]);
    for (const lathe::ValueInfo& input : program.inputs()) {
      std::cout << "input " << input.name << ' ' << input.type << '\n';
    }
    const lathe::Plan plan(program);
    lathe::Session session(plan);

    std::array<float, 64> pixels{};
    for (float& pixel : pixels) std::cin >> pixel;
    const lathe::Tensor image = lathe::Tensor::wrap<float>({1, 1, 8, 8}, pixels.data());
    const std::vector<lathe::Tensor> results = session.run({image});

    const std::span<float> scores = results[0].values<float>();
    const auto best = std::max_element(scores.begin(), scores.end());
    std::cout << "digit " << best - scores.begin() << ", probability " << *best << '\n';
    return 0;
  } catch (const lathe::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
