// SPDX-License-Identifier: MIT
// Ops for the tests of this folder, one per kind of record.
#include <gtest/gtest.h>

#include "ir/infer.h"

namespace lathe {
namespace {

const Register test_add{{
    .name = "test_add",
    .doc = "Broadcasts its operands.",
    .operands = {{.name = "a", .types = kNumeric, .group = 'T'},
                 {.name = "b", .types = kNumeric, .group = 'T'}},
    .traits = kCommutative,
}};

const Register test_split{{
    .name = "test_split",
    .doc = "One copy of x per result.",
    .operands = {{"x"}, {"sizes", kIndices, Arity::optional}, {"y", kAnyType, Arity::optional}},
    .attributes = {{"axis", 0}},
    .results = -1,
    .infer =
        [](Infer& c) {
          for (int i = 0; i < c.expected_results(); ++i) c.result(c.type(0));
        },
}};

const Register test_nonzero{{
    .name = "test_nonzero",
    .doc = "Defines a data-dependent symbol.",
    .operands = {{"x"}},
    .infer =
        [](Infer& c) {
          const Dim rank = c.rank(0);
          c.result(ElementType::i64, {rank, c.found("count", {0, 100})});
        },
}};

const Register test_same{{
    .name = "test_same",
    .doc = "Requires two dims to be equal.",
    .operands = {{"a"}, {"b"}},
    .infer =
        [](Infer& c) {
          c.require_equal(c.dim(0, 0), c.dim(1, 0), "rows of a and b");
          c.result(c.type(0));
        },
}};

const Register test_reshape{{
    .name = "test_reshape",
    .doc = "x with the shape of its second operand.",
    .operands = {{"x"}, {"shape", kIndices}},
    .infer =
        [](Infer& c) {
          c.check(c.elements(1) != nullptr, "the shape is unknown, its type is {}",
                  c.type(1).to_string());
          c.result(c.element(0), *c.elements(1));
        },
}};

const Register test_sequence{{
    .name = "test_sequence",
    .doc = "A value of the requested type.",
    .attributes = {{"type", AttributeKind::type}},
    .infer =
        [](Infer& c) {
          c.result(std::get<Type>(*find_attribute(c.instruction().attributes(), "type")));
        },
}};

const Register test_everything{{
    .name = "test_everything",
    .doc = "Attributes of every kind, with and without default.",
    .attributes = {{"integer", 3},
                   {"number", Attribute(0.5)},
                   {"flag", Attribute(true)},
                   {"text", "as is"},
                   {"element", Attribute(ElementType::f16)},
                   {"integers", Attribute(Integers{1, 2})},
                   {"numbers", AttributeKind::numbers, false},
                   {"texts", AttributeKind::texts, false},
                   {"dims", AttributeKind::dims, false},
                   {"type", AttributeKind::type, false},
                   {"must", AttributeKind::integer}},
    .infer = [](Infer& c) { c.result(ElementType::f32, {}); },
}};

const Register test_composite{{
    .name = "test_composite",
    .doc = "Has an expansion.",
    .operands = {{"x"}},
    .infer = [](Infer& c) { c.result(c.type(0)); },
    .expand = [](Expansion&) {},
}};

const Register test_random{{
    .name = "test_random",
    .doc = "Returns another value in each call.",
    .traits = kImpure,
    .infer = [](Infer& c) { c.result(ElementType::f32, {}); },
}};

TEST(TestOps, are_registered_with_all_other_ops) {
  EXPECT_NE(find_op("test_everything"), nullptr);
  EXPECT_NE(find_op("literal"), nullptr);
}

}  // namespace
}  // namespace lathe
