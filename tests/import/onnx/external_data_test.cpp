// SPDX-License-Identifier: MIT
#include "import/onnx/external_data.h"

#include <gtest/gtest.h>

#include "import/onnx/reader.h"
#include "import/onnx/tensor_proto.h"
#include "tests/import/onnx/model_bytes.h"
#include "tests/support/errors.h"
#include "tests/support/folder.h"

namespace lathe::onnx {
namespace {

// A model with f32[2] 'w', whose external data has `entries`.
Bytes model_with(std::initializer_list<std::pair<std::string_view, std::string_view>> entries) {
  Bytes tensor = tensor_bytes("w", 1, {2}).integer(14, 1);
  for (const auto& [key, value] : entries) {
    tensor.message(13, Bytes().text(1, key).text(2, value));
  }
  return relu_model(Bytes().message(5, tensor));
}

Tensor read_weight(const std::string& path) {
  return to_tensor(read_model(path).graph.initializers.at(0));
}

constexpr std::string_view kOneTwo("\0\0\x80\x3f\0\0\0\x40", 8);

TEST(ExternalData, IsMappedInPlace) {
  const TestFolder folder;
  folder.write("sub/w.bin", std::string("skip").append(kOneTwo).append("more"));
  const std::string path = folder.write(
      "m.onnx",
      model_with({{"location", "sub/w.bin"}, {"offset", "4"}, {"length", "8"}, {"checksum", "?"}})
          .data());
  const Model model = read_model(path);
  const std::optional<FilePlace> place = file_place(model, model.graph.initializers.at(0));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->file, real_path(folder.path("sub/w.bin")));
  EXPECT_EQ(place->offset, 4);
  const Tensor tensor = read_weight(path);
  EXPECT_EQ(tensor.elements<float>()[0], 1);
  EXPECT_EQ(tensor.elements<float>()[1], 2);
}

TEST(ExternalData, OutlivesTheModel) {
  const TestFolder folder;
  folder.write("w.bin", kOneTwo);
  const std::string path = folder.write("m.onnx", model_with({{"location", "w.bin"}}).data());
  Tensor tensor = read_weight(path);  // the model is destroyed
  EXPECT_EQ(tensor.elements<float>()[1], 2);
}

TEST(ExternalData, LocationsThatLeaveTheFolderAreRefusedUnread) {
  const TestFolder folder;
  const auto error = [&](std::string_view location) {
    const std::string path = folder.write("m.onnx", model_with({{"location", location}}).data());
    return error_of([&] { read_model(path); });
  };
  for (const std::string_view location : {"/etc/passwd", "../w.bin", "a/../../w.bin", "a/.."}) {
    EXPECT_EQ(error(location),
              fmt::format("InvalidModel: tensor 'w': location '{}' of its external data leaves the "
                          "model's folder, expected a relative path without '..'",
                          location));
  }
  EXPECT_EQ(error(""),
            "InvalidModel: tensor 'w': location '' of its external data is not a file name");
  EXPECT_EQ(error(std::string_view("a\0b", 3)),
            "InvalidModel: tensor 'w': location 'a\\x00b' of its external data is not a file name");
  EXPECT_TRUE(error("..a/b..").starts_with("no error"));
}

TEST(ExternalData, LinksStayInTheFolder) {
  const TestFolder folder;
  folder.write("outside.bin", kOneTwo);
  folder.write("model/real/w.bin", kOneTwo);
  folder.link("../outside.bin", "model/escape.bin");
  folder.link("..", "model/up");
  folder.link("real/w.bin", "model/inside.bin");
  const auto weight = [&](std::string_view location) {
    const std::string path =
        folder.write("model/m.onnx", model_with({{"location", location}}).data());
    return error_of([&] { read_weight(path); });
  };
  const std::string real = real_path(folder.path());
  EXPECT_EQ(weight("inside.bin"), "no error");
  EXPECT_EQ(weight("escape.bin"),
            fmt::format("InvalidModel: 'escape.bin' is a link to '{0}/outside.bin', outside the "
                        "model's folder '{0}/model'\n"
                        "  external data of tensor 'w', at 'escape.bin' in folder '{0}/model'",
                        real));
  EXPECT_TRUE(weight("up/outside.bin").starts_with("InvalidModel: 'up/outside.bin' is a link to"));
}

TEST(ExternalData, ACacheEntryLinksItsOwnBlobs) {
  const TestFolder folder;
  const std::string model =
      folder.write("hub/models--a--b/blobs/1111", model_with({{"location", "w.bin"}}).data());
  folder.write("hub/models--a--b/blobs/2222", kOneTwo);
  folder.write("hub/models--c--d/blobs/3333", kOneTwo);
  folder.link("../../blobs/1111", "hub/models--a--b/snapshots/rev/m.onnx");
  const std::string path = folder.path("hub/models--a--b/snapshots/rev/m.onnx");
  folder.link("../../blobs/2222", "hub/models--a--b/snapshots/rev/w.bin");
  EXPECT_EQ(read_weight(path).elements<float>()[1], 2);
  std::filesystem::remove(folder.path("hub/models--a--b/snapshots/rev/w.bin"));
  folder.link("../../../models--c--d/blobs/3333", "hub/models--a--b/snapshots/rev/w.bin");
  EXPECT_TRUE(error_of([&] { read_weight(path); }).starts_with("InvalidModel: 'w.bin' is a link"));
}

TEST(ExternalData, RangesAreChecked) {
  const TestFolder folder;
  folder.write("w.bin", kOneTwo);
  const auto error = [&](std::string_view offset, std::string_view length) {
    const std::string path = folder.write(
        "m.onnx",
        model_with({{"location", "w.bin"}, {"offset", offset}, {"length", length}}).data());
    return error_of([&] { read_weight(path); });
  };
  EXPECT_EQ(error("0", "8"), "no error");
  EXPECT_EQ(
      error("1", "8"),
      "InvalidModel: tensor 'w' needs 8 bytes at offset 1 of 'w.bin', but that file has 8 bytes");
  EXPECT_EQ(error("18446744073709551615", "8"),
            "InvalidModel: tensor 'w' needs 8 bytes at offset 18446744073709551615 of 'w.bin', "
            "but that file has 8 bytes");
  EXPECT_EQ(
      error("0", "12"),
      "InvalidModel: tensor 'w': its external data has length 12, but its type and shape need "
      "8 bytes");
  EXPECT_EQ(error("-1", "8"),
            "InvalidModel: tensor 'w': offset of its external data is '-1', expected a number of "
            "bytes");
  EXPECT_EQ(error("0", "99999999999999999999"),
            "InvalidModel: tensor 'w': length of its external data is '99999999999999999999', "
            "expected a number of bytes");
}

TEST(ExternalData, AMissingFileNamesTensorAndPlace) {
  const TestFolder folder;
  const std::string path = folder.write("m.onnx", model_with({{"location", "w.bin"}}).data());
  EXPECT_EQ(error_of([&] { read_model(path); }), "no error");  // the weight is not read yet
  EXPECT_EQ(error_of([&] { read_weight(path); }),
            fmt::format("Io: cannot find '{0}/w.bin': No such file or directory\n"
                        "  external data of tensor 'w', at 'w.bin' in folder '{0}'",
                        real_path(folder.path())));
}

TEST(ExternalData, NeedsAFolder) {
  const std::string bytes = model_with({{"location", "w.bin"}}).data();
  const Model model = parse_model(bytes, "<memory>", nullptr);
  EXPECT_EQ(
      error_of([&] { to_tensor(model.graph.initializers.at(0)); }),
      "InvalidArgument: the elements of tensor 'w' are in 'w.bin', which cannot be found: the "
      "model was read from memory without that file");
}

TEST(ExternalData, MayBeInMemory) {
  const std::string bytes = model_with({{"location", "./sub//w.bin"}, {"offset", "4"}}).data();
  const auto weight = [&](const MemoryFiles& files, const std::string& folder = "") {
    const Model model = parse_model(bytes, "<memory>", nullptr, folder, files);
    EXPECT_FALSE(file_place(model, model.graph.initializers.at(0)).has_value());
    return to_tensor(model.graph.initializers.at(0));
  };
  const MemoryFile file = MemoryFile::copy_of(std::string("skip").append(kOneTwo));
  const Tensor tensor = weight({{"sub/w.bin", file}, {"w.bin", {}}});
  EXPECT_EQ(tensor.elements<float>()[1], 2);
  EXPECT_EQ(
      error_of([&] { weight({{"sub/w.bin", {file.text.substr(0, 11), nullptr}}}); }),
      "InvalidModel: tensor 'w' needs 8 bytes at offset 4 of './sub//w.bin', but that file has "
      "11 bytes");
  EXPECT_EQ(
      error_of([&] { weight({{"sub/v.bin", file}}); }),
      "InvalidArgument: the elements of tensor 'w' are in './sub//w.bin', which is not among the "
      "files in memory (did you mean 'sub/v.bin'?)");
  // It takes precedence over a file on disk, also for models from files.
  const TestFolder folder;
  const std::string path = folder.write("m.onnx", bytes);
  folder.write("sub/w.bin", "none of it");
  EXPECT_EQ(weight({{"sub/w.bin", file}}, folder.path()).elements<float>()[0], 1);
  const Model model = read_model(path, {{"sub/w.bin", file}});
  EXPECT_EQ(to_tensor(model.graph.initializers.at(0)).elements<float>()[0], 1);
}

TEST(ExternalData, IsNamedRelativeToTheModel) {
  const MemoryFiles files = {{"a/b.bin", {"1", nullptr}}, {"./c.bin", {"2", nullptr}}};
  EXPECT_EQ(files_below(files, "a").at("b.bin").text, "1");
  EXPECT_EQ(files_below(files, "a").size(), 1U);
  EXPECT_EQ(files_below(files, ".").at("c.bin").text, "2");
  EXPECT_EQ(files_below(files, ".").at("a/b.bin").text, "1");
}

TEST(ExternalData, StringsCannotBeExternal) {
  const Bytes tensor = tensor_bytes("w", 8, {2}).integer(14, 1);
  EXPECT_EQ(error_of([&] {
              parse_model(relu_model(Bytes().message(5, tensor)).data(), "m.onnx", nullptr);
            }),
            "InvalidModel: tensor 'w' of strings has its elements in external data, expected "
            "string_data");
}

}  // namespace
}  // namespace lathe::onnx
