// SPDX-License-Identifier: MIT
#include "import/onnx/sniff.h"

#include <gtest/gtest.h>

#include <string>

namespace lathe::onnx {
namespace {

using namespace std::string_literals;

TEST(Sniff, RecognisesOtherFormats) {
  const auto begins = [](std::string bytes, std::string_view meaning) {
    const std::string_view found = sniff(bytes);
    EXPECT_TRUE(found.starts_with(meaning)) << bytes << ": " << found;
  };
  begins("", "an empty file");
  begins(std::string(100, '\0'), "a file of zero bytes");
  begins("PK\x03\x04rest", "a zip archive");
  begins("\x1f\x8b\x08", "a gzip file");
  begins("\x0b\0\0\0\0\0\0\0{\"a\":\"bcde\"}"s, "a safetensors checkpoint");
  begins("\x80\x02}q\0X"s, "a Python pickle");
  begins("GGUF\x03", "a GGUF checkpoint");
  begins("\x1c\0\0\0TFL3"s, "a TensorFlow Lite model");
  begins("version https://git-lfs\n", "a Git LFS pointer");
  begins("  \n<HTML><body>", "an HTML page");
  begins("<?xml version='1.0'?>", "an XML file");
  begins("{\"a\": 1}", "a JSON file");
  begins("import torch\n", "a text file");
}

TEST(Sniff, IsEmptyForUnknownBytes) {
  EXPECT_EQ(sniff("\x08\x07\x12\x01z"), "");
  // A header length beyond the file is not a safetensors checkpoint.
  EXPECT_EQ(sniff("\xff\xff\0\0\0\0\0\0{\"a\":1}"s), "");
}

TEST(Sniff, KnowsTheTextualSyntax) {
  EXPECT_TRUE(is_onnx_text("<ir_version: 8>\ng () => () {}"));
  EXPECT_TRUE(is_onnx_text("# a comment\n < opset_import : [] >"));
  EXPECT_TRUE(is_onnx_text("g (float x) => (float y) { y = Neg(x) }"));
  EXPECT_FALSE(is_onnx_text("<html>"));
  EXPECT_FALSE(is_onnx_text("<!DOCTYPE html>"));
  EXPECT_FALSE(is_onnx_text("hello (world)"));
  EXPECT_FALSE(is_onnx_text(""));
  EXPECT_FALSE(is_onnx_text("#"));
  EXPECT_FALSE(is_onnx_text("\x08\x07<ir_version: 8>"));
}

}  // namespace
}  // namespace lathe::onnx
