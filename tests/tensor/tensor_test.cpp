// SPDX-License-Identifier: MIT
#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/os_memory.h"
#include "base/thread_pool.h"
#include "tensor/copy.h"

namespace lathe {
namespace {

ErrorKind kind_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::interrupted;  // thrown by no test
}

// 0, 1, 2, … in row-major order.
Tensor counting(Dims dims) {
  Tensor tensor(ElementType::i32, std::move(dims));
  auto elements = tensor.elements<int32_t>();
  std::iota(elements.begin(), elements.end(), 0);
  return tensor;
}

TEST(ElementTypes, NamesAndOnnxNumbersRoundTrip) {
  std::set<int> numbers;
  for (const ElementTypeInfo& entry : element_types()) {
    EXPECT_EQ(element_type_from_name(entry.name), entry.type);
    EXPECT_EQ(element_type_from_onnx(entry.onnx), entry.type);
    EXPECT_EQ(to_string(entry.type), entry.name);
    EXPECT_TRUE(numbers.insert(entry.onnx).second) << entry.name;
  }
  EXPECT_EQ(numbers.size(), 26u);
  EXPECT_EQ(*numbers.begin(), 1);
  EXPECT_EQ(*numbers.rbegin(), 26);
  EXPECT_EQ(element_type_from_name("float"), std::nullopt);
  EXPECT_EQ(element_type_from_onnx(0), std::nullopt);
  EXPECT_EQ(element_type_from_onnx(-1), std::nullopt);
}

TEST(ElementTypes, PackedElementsRoundUpToWholeBytes) {
  EXPECT_EQ(bytes_for(ElementType::u4, 0), 0);
  EXPECT_EQ(bytes_for(ElementType::u4, 3), 2);
  EXPECT_EQ(bytes_for(ElementType::i2, 4), 1);
  EXPECT_EQ(bytes_for(ElementType::i2, 5), 2);
  EXPECT_EQ(bytes_for(ElementType::c128, 3), 48);
  EXPECT_EQ(bytes_for(ElementType::u4, INT64_MAX), INT64_MAX / 2 + 1);
}

TEST(ElementTypes, SizesThatOverflowAreErrors) {
  EXPECT_EQ(kind_of([] { bytes_for(ElementType::f32, INT64_MAX / 2); }), ErrorKind::out_of_memory);
  EXPECT_EQ(kind_of([] { bytes_for(ElementType::f32, -1); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { bytes_for(ElementType::string, 1); }), ErrorKind::internal);
}

TEST(Tensors, NewTensorsAreDenseAlignedAndZero) {
  for (const ElementTypeInfo& entry : element_types()) {
    const Tensor tensor(entry.type, {3, 1, 5});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0u);
    EXPECT_TRUE(tensor.is_dense());
    EXPECT_EQ(tensor.strides(), (Dims{5, 5, 1}));
    EXPECT_EQ(tensor.count(), 15);
    if (entry.type == ElementType::string) {
      for (const std::string& text : tensor.elements<std::string>()) EXPECT_EQ(text, "");
      continue;
    }
    for (int64_t i = 0; i < tensor.byte_size(); ++i) EXPECT_EQ(tensor.as<uint8_t>()[i], 0);
  }
}

TEST(Tensors, ScalarsHaveOneElementAndEmptyTensorsNone) {
  EXPECT_EQ(Tensor(ElementType::f32, {}).count(), 1);
  const Tensor empty(ElementType::f32, {1 << 16, 1 << 16, 0});
  EXPECT_EQ(empty.count(), 0);
  EXPECT_EQ(empty.byte_size(), 0);
  EXPECT_TRUE(empty.is_dense());
  EXPECT_TRUE(identical(empty, empty.clone()));
}

TEST(Tensors, InvalidShapesAreErrors) {
  const auto make = [](Dims dims) {
    return kind_of([&] { Tensor(ElementType::f64, std::move(dims)); });
  };
  EXPECT_EQ(make({-1}), ErrorKind::invalid_argument);
  EXPECT_EQ(make({0, -1}), ErrorKind::invalid_argument);
  EXPECT_EQ(make({INT64_MAX, 2}), ErrorKind::out_of_memory);
  EXPECT_EQ(make({0, INT64_MAX}), ErrorKind::out_of_memory);
  EXPECT_EQ(make({INT64_MAX, INT64_MAX, 0}), ErrorKind::out_of_memory);
  EXPECT_EQ(make({INT64_MAX / 4}), ErrorKind::out_of_memory);
  EXPECT_EQ(make({int64_t{1} << 45}), ErrorKind::out_of_memory);
  EXPECT_EQ(make(Dims(17, 1)), ErrorKind::unsupported);
}

TEST(Tensors, LargeTensorsAreAlignedToLargePagesAndSmallOnesToCacheLines) {
  const auto offset_of = [](int64_t bytes, size_t unit) {
    const Tensor tensor(ElementType::u8, {bytes});
    const auto* data = static_cast<const uint8_t*>(tensor.data());
    EXPECT_TRUE(std::all_of(data, data + bytes, [](uint8_t byte) { return byte == 0; })) << bytes;
    return reinterpret_cast<uintptr_t>(data) % unit;
  };
  for (const int64_t bytes : {0, 1, 63, 65, 4097}) EXPECT_EQ(offset_of(bytes, 64), 0u) << bytes;
  const auto large = static_cast<int64_t>(kLargePage);
  for (const int64_t bytes : {large - 1, large, 3 * large}) EXPECT_EQ(offset_of(bytes, 64), 0u);
  for (const int64_t bytes : {16 * large, 16 * large + 1, 17 * large - 1}) {
    EXPECT_EQ(offset_of(bytes, kLargePage), 0u) << bytes;
  }
}

TEST(Tensors, AllocateOnceAndReturnMemoryToTheAllocator) {
  class Counting final : public Allocator {
   public:
    void* allocate(size_t bytes, size_t alignment) override {
      live += bytes;
      return bytes > 4096 ? nullptr : host_allocator().allocate(bytes, alignment);
    }
    void deallocate(void* pointer, size_t bytes) noexcept override {
      live -= bytes;
      host_allocator().deallocate(pointer, bytes);
    }
    size_t live = 0;
  };
  Counting allocator;
  {
    const Tensor tensor(ElementType::string, {4}, allocator);
    const Tensor shared = tensor;
    EXPECT_EQ(allocator.live, 4 * sizeof(std::string));
    EXPECT_EQ(shared.data(), tensor.data());
  }
  EXPECT_EQ(allocator.live, 0u);
  EXPECT_EQ(kind_of([&] { Tensor(ElementType::u8, {5000}, allocator); }), ErrorKind::out_of_memory);
}

TEST(Tensors, ForeignMemoryIsCheckedAndKeptAlive) {
  auto buffer = std::make_shared<std::vector<int32_t>>(6, 7);
  std::weak_ptr<void> alive = buffer;
  int32_t* data = buffer->data();
  {
    Tensor tensor(ElementType::i32, {3, 2}, {1, 3}, data, std::move(buffer));
    EXPECT_FALSE(tensor.is_dense());
    EXPECT_FALSE(alive.expired());
  }
  EXPECT_TRUE(alive.expired());
  uint8_t bytes[8] = {};
  EXPECT_EQ(kind_of([&] { Tensor(ElementType::u4, {2, 2}, {1, 2}, bytes, nullptr); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { Tensor(ElementType::u8, {2}, {1}, nullptr, nullptr); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([&] { Tensor(ElementType::u8, {2}, {1, 1}, bytes, nullptr); }),
            ErrorKind::invalid_argument);
}

TEST(Tensors, AxesOfSizeOneMayHaveAnyStride) {
  int32_t data[6] = {};
  EXPECT_TRUE(Tensor(ElementType::i32, {1, 2, 1, 3}, {99, 3, -7, 1}, data, nullptr).is_dense());
  EXPECT_FALSE(Tensor(ElementType::i32, {2, 3}, {1, 2}, data, nullptr).is_dense());
  EXPECT_FALSE(Tensor(ElementType::i32, {2, 3}, {0, 1}, data, nullptr).is_dense());
}

TEST(Tensors, TransposedReversedAndBroadcastViewsBecomeDense) {
  const Tensor source = counting({2, 3});
  int32_t* data = source.as<int32_t>();
  const Tensor transposed(ElementType::i32, {3, 2}, {1, 3}, data, source.owner());
  const auto values = [](const Tensor& tensor) {
    const Tensor dense = tensor.dense();
    const auto elements = dense.elements<int32_t>();
    return std::vector<int32_t>(elements.begin(), elements.end());
  };
  EXPECT_EQ(values(transposed), (std::vector<int32_t>{0, 3, 1, 4, 2, 5}));
  const Tensor reversed(ElementType::i32, {6}, {-1}, data + 5, source.owner());
  EXPECT_EQ(values(reversed), (std::vector<int32_t>{5, 4, 3, 2, 1, 0}));
  const Tensor repeated(ElementType::i32, {2, 3}, {0, 1}, data, source.owner());
  EXPECT_EQ(values(repeated), (std::vector<int32_t>{0, 1, 2, 0, 1, 2}));
  const Tensor scalar(ElementType::i32, {}, {}, data + 4, source.owner());
  EXPECT_EQ(values(scalar.clone()), (std::vector<int32_t>{4}));
  EXPECT_EQ(source.dense().data(), source.data());
  EXPECT_NE(source.clone().data(), source.data());
}

TEST(Tensors, EveryElementSizeIsCopiedThroughStrides) {
  for (const ElementTypeInfo& entry : element_types()) {
    if (entry.bits < 8) continue;
    const int64_t size = entry.bits / 8;
    const Tensor source(entry.type, {4, 5, 3});
    for (int64_t i = 0; i < source.byte_size(); ++i) {
      source.as<uint8_t>()[i] = static_cast<uint8_t>(i * 7);
    }
    const Tensor permuted(entry.type, {3, 4, 5}, {1, 15, 3}, source.data(), source.owner());
    const Tensor copy = permuted.clone();
    for (int64_t k = 0; k < 60; ++k) {
      const int64_t from = k / 20 + 15 * (k / 5 % 4) + 3 * (k % 5);
      for (int64_t byte = 0; byte < size; ++byte) {
        ASSERT_EQ(copy.as<uint8_t>()[k * size + byte],
                  static_cast<uint8_t>((from * size + byte) * 7))
            << entry.name << " element " << k;
      }
    }
  }
}

TEST(Tensors, StringsAreCopiedAsObjects) {
  const Tensor source(ElementType::string, {2, 2});
  const std::string_view texts[] = {"a", "a text too long for any small-string buffer", "", "d"};
  std::copy(std::begin(texts), std::end(texts), source.as<std::string>());
  const Tensor transposed(ElementType::string, {2, 2}, {1, 2}, source.data(), source.owner());
  const Tensor copy = transposed.clone();
  EXPECT_EQ(copy.as<std::string>()[2], texts[1]);
  EXPECT_EQ(copy.as<std::string>()[1], texts[2]);
  EXPECT_TRUE(identical(copy, transposed));
  EXPECT_FALSE(identical(copy, source));
}

TEST(Tensors, IdenticalComparesBitsAndIgnoresTheTailOfPackedElements) {
  const Tensor a(ElementType::u4, {3});
  const Tensor b(ElementType::u4, {3});
  a.as<uint8_t>()[1] = 0x15;
  b.as<uint8_t>()[1] = 0xF5;
  EXPECT_TRUE(identical(a, b));
  b.as<uint8_t>()[1] = 0x14;
  EXPECT_FALSE(identical(a, b));
  EXPECT_FALSE(identical(a, Tensor(ElementType::i4, {3})));
  EXPECT_FALSE(identical(Tensor(ElementType::u8, {2, 3}), Tensor(ElementType::u8, {3, 2})));
  const Tensor nan(ElementType::f32, {1});
  nan.as<uint32_t>()[0] = 0x7FC00001;
  EXPECT_TRUE(identical(nan, nan.clone()));
}

TEST(Tensors, CopyRefusesDifferentTypesAndShapes) {
  const Tensor a(ElementType::f32, {2, 3});
  EXPECT_EQ(kind_of([&] { copy_elements(a.view(), Tensor(ElementType::i32, {2, 3}).view()); }),
            ErrorKind::internal);
  EXPECT_EQ(kind_of([&] { copy_elements(a.view(), Tensor(ElementType::f32, {3, 2}).view()); }),
            ErrorKind::internal);
}

// Every order of the axes in memory, on both sides; sizes around those of tiles and of parts.
TEST(Tensors, LargeCopiesKeepElementsInAnyOrderOfAxesOnSeveralThreads) {
  ThreadPool pool(2);
  const Dims dims{3, 33, 2, 257};
  const auto count = static_cast<size_t>(element_count(dims));
  std::array<size_t, 4> from_order{0, 1, 2, 3};
  const auto strided = [&](const std::array<size_t, 4>& order, void* data) {
    Dims strides(dims.size());
    int64_t stride = 1;
    for (size_t i = order.size(); i-- > 0; stride *= dims[order[i]]) strides[order[i]] = stride;
    return Tensor(ElementType::i32, dims, strides, data, nullptr);
  };
  std::vector<int32_t> source(count);
  std::iota(source.begin(), source.end(), 0);
  do {
    std::array<size_t, 4> to_order{0, 1, 2, 3};
    const TensorView from = strided(from_order, source.data()).view();
    do {
      std::vector<int32_t> alone(count, -1);
      std::vector<int32_t> together(count, -1);
      const TensorView first = strided(to_order, alone.data()).view();
      copy_elements(from, first);
      copy_elements(from, strided(to_order, together.data()).view(), &pool);
      ASSERT_EQ(alone, together);
      const std::array<int64_t, 4> last{2, 31, 1, 200};
      int64_t a = 0;
      int64_t b = 0;
      for (size_t axis = 0; axis < last.size(); ++axis) {
        a += last[axis] * from.strides[axis];
        b += last[axis] * first.strides[axis];
      }
      ASSERT_EQ(source[static_cast<size_t>(a)], alone[static_cast<size_t>(b)]);
      std::vector<int32_t> back(count, -1);
      copy_elements(first, strided(from_order, back.data()).view(), &pool);
      ASSERT_EQ(back, source);
    } while (std::next_permutation(to_order.begin(), to_order.end()));
  } while (std::next_permutation(from_order.begin(), from_order.end()));
}

TEST(Tensors, ShapesPrintAsInTheTextForm) {
  EXPECT_EQ(to_string(ElementType::f32, Dims{2, 3}), "f32[2, 3]");
  EXPECT_EQ(to_string(ElementType::boolean, Dims{}), "bool[]");
}

TEST(Tensors, MisalignedForeignMemoryIsCopied) {
  alignas(8) std::array<std::byte, 16> memory{};
  for (const size_t shift : {0u, 1u, 2u, 4u}) {
    const float value = 1.5f;
    std::memcpy(memory.data() + shift, &value, sizeof value);
    const Tensor tensor(ElementType::f32, {1}, {1}, memory.data() + shift, nullptr);
    EXPECT_EQ(tensor.is_aligned(), shift % 4 == 0);
    EXPECT_EQ(tensor.aligned().data() == tensor.data(), shift % 4 == 0);
    EXPECT_EQ(tensor.aligned().elements<float>()[0], 1.5f);
  }
  EXPECT_EQ(alignment_of(ElementType::c64), 4u);
  EXPECT_EQ(alignment_of(ElementType::c128), 8u);
  EXPECT_EQ(alignment_of(ElementType::u4), 1u);
  EXPECT_EQ(alignment_of(ElementType::bf16), 2u);
}

}  // namespace
}  // namespace lathe
