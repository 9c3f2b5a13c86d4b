#include "plugins/fake/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "plugins/fake/number.h"
#include "runtime/base/text.h"

namespace neurond::fake {
namespace {

// Runs `body`, lines of ops on %arg0 : `in`, whose last value %r : `out` is returned.
template <typename In, typename Out>
std::vector<Out> Interpreted(const std::string& in, const std::string& out, const std::string& body,
                             const std::vector<In>& argument) {
  const std::string text = Cat("module @m {\n func.func public @main(%arg0: ", in, ") -> (", out,
                               ") {\n", body, "\n return %r : ", out, "\n }\n}\n");
  absl::StatusOr<HloModule> module = ParseModule(text);
  EXPECT_TRUE(module.ok()) << module.status() << "\n" << text;
  if (!module.ok()) return {};
  const absl::Status status = CheckModule(*module);
  EXPECT_TRUE(status.ok()) << status;
  if (!status.ok()) return {};
  EXPECT_EQ(static_cast<size_t>(module->signature.parameters[0].bytes()),
            argument.size() * sizeof(In));
  const char* data = reinterpret_cast<const char*>(argument.data());
  const std::vector<char> bytes = Interpret(*module, {&data, 1})[0];
  std::vector<Out> result(bytes.size() / sizeof(Out));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

std::vector<int32_t> Ints(const std::string& in, const std::string& out, const std::string& body,
                          const std::vector<int32_t>& argument) {
  return Interpreted<int32_t, int32_t>(in, out, body, argument);
}

using I32 = std::vector<int32_t>;

TEST(InterpreterTest, IntegersWrapAndDivideAsStableHloSays) {
  const std::string t = "tensor<3xi32>";
  const I32 in = {7, INT32_MIN, -5};
  EXPECT_EQ(Ints(t, t, Cat("%r = stablehlo.add %arg0, %arg0 : ", t), in), (I32{14, 0, -10}));
  EXPECT_EQ(Ints(t, t,
                 Cat("%c = stablehlo.constant dense<[2, -1, 0]> : ", t,
                     "\n%r = stablehlo.divide %arg0, %c : ", t),
                 in),
            (I32{3, INT32_MIN, -1}));
  EXPECT_EQ(Ints(t, t,
                 Cat("%c = stablehlo.constant dense<[4, -1, 0]> : ", t,
                     "\n%r = stablehlo.remainder %arg0, %c : ", t),
                 in),
            (I32{3, 0, -5}));
  EXPECT_EQ(Ints(t, t, Cat("%r = stablehlo.negate %arg0 : ", t), in), (I32{-7, INT32_MIN, 5}));
}

TEST(InterpreterTest, FloatsRoundOnceAndKeepNan) {
  const std::string t = "tensor<3xf32>";
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> in = {1e30f, 0.1f, nan};
  auto sum = Interpreted<float, float>(t, t, Cat("%r = stablehlo.multiply %arg0, %arg0 : ", t), in);
  EXPECT_EQ(sum[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ(sum[1], 0.1f * 0.1f);
  EXPECT_TRUE(std::isnan(sum[2]));
  auto most = Interpreted<float, float>(
      t, t,
      Cat("%c = stablehlo.constant dense<1.0> : ", t, "\n%r = stablehlo.maximum %arg0, %c : ", t),
      in);
  EXPECT_EQ(most[1], 1.0f);
  EXPECT_TRUE(std::isnan(most[2]));
}

TEST(InterpreterTest, ShapesMove) {
  const std::string t = "tensor<2x3xi32>";
  const I32 in = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(
      Ints(t, "tensor<3x2xi32>",
           Cat("%r = stablehlo.transpose %arg0, dims = [1, 0] : (", t, ") -> tensor<3x2xi32>"), in),
      (I32{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(Ints(t, "tensor<2x2xi32>",
                 Cat("%r = stablehlo.slice %arg0 [0:2, 0:3:2] : (", t, ") -> tensor<2x2xi32>"), in),
            (I32{1, 3, 4, 6}));
  EXPECT_EQ(Ints(t, "tensor<3x4xi32>",
                 Cat("%s = stablehlo.slice %arg0 [1:2, 0:3] : (", t,
                     ") -> tensor<1x3xi32>\n"
                     "%f = stablehlo.reshape %s : (tensor<1x3xi32>) -> tensor<3xi32>\n"
                     "%r = stablehlo.broadcast_in_dim %f, dims = [0] : "
                     "(tensor<3xi32>) -> tensor<3x4xi32>"),
                 in),
            (I32{4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6}));
  EXPECT_EQ(Ints(t, "tensor<2x6xi32>",
                 Cat("%r = stablehlo.concatenate %arg0, %arg0, dim = 1 : (", t, ", ", t,
                     ") -> tensor<2x6xi32>"),
                 in),
            (I32{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
  EXPECT_EQ(Ints(t, t, Cat("%r = stablehlo.iota dim = 1 : ", t), in), (I32{0, 1, 2, 0, 1, 2}));
}

TEST(InterpreterTest, DynamicSlicesClamp) {
  const std::string t = "tensor<4xi32>";
  for (auto [start, expected] : {std::pair<int, I32>{1, {2, 3}}, {-9, {1, 2}}, {9, {3, 4}}}) {
    EXPECT_EQ(Ints(t, "tensor<2xi32>",
                   Cat("%i = stablehlo.constant dense<", start, "> : tensor<i64>\n",
                       "%r = stablehlo.dynamic_slice %arg0, %i, sizes = [2] : (", t,
                       ", tensor<i64>) -> tensor<2xi32>"),
                   {1, 2, 3, 4}),
              expected);
  }
  EXPECT_EQ(Ints(t, t,
                 Cat("%i = stablehlo.constant dense<3> : tensor<i64>\n"
                     "%u = stablehlo.constant dense<[8, 9]> : tensor<2xi32>\n"
                     "%r = stablehlo.dynamic_update_slice %arg0, %u, %i : (",
                     t, ", tensor<2xi32>, tensor<i64>) -> ", t),
                 {1, 2, 3, 4}),
            (I32{1, 2, 8, 9}));
}

TEST(InterpreterTest, CompareSelectAndConvert) {
  const std::string t = "tensor<4xi32>";
  EXPECT_EQ(Ints(t, t,
                 Cat("%z = stablehlo.constant dense<0> : ", t,
                     "\n%p = stablehlo.compare LT, %arg0, %z, SIGNED : (", t, ", ", t,
                     ") -> tensor<4xi1>\n%r = stablehlo.select %p, %z, %arg0 : tensor<4xi1>, ", t),
                 {-3, 4, -5, 6}),
            (I32{0, 4, 0, 6}));
  const auto saturated = Interpreted<float, int8_t>(
      "tensor<4xf32>", "tensor<4xi8>",
      "%r = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xi8>", {1.9f, -1.9f, 500, -500});
  EXPECT_EQ(saturated, (std::vector<int8_t>{1, -1, 127, -128}));
  const auto bits = Interpreted<float, uint32_t>(
      "tensor<1xf32>", "tensor<1xui32>",
      "%r = stablehlo.bitcast_convert %arg0 : (tensor<1xf32>) -> tensor<1xui32>", {1.0f});
  EXPECT_EQ(bits, (std::vector<uint32_t>{0x3F800000}));
}

TEST(InterpreterTest, LiteralsOfEveryForm) {
  const auto value = [](const std::string& literal, const std::string& type) {
    return Interpreted<int32_t, float>(
        "tensor<1xi32>", type, Cat("%r = stablehlo.constant dense<", literal, "> : ", type), {0});
  };
  EXPECT_EQ(value("1.5", "tensor<2xf32>"), (std::vector<float>{1.5, 1.5}));
  EXPECT_EQ(value("[[1.0, -2.0], [3e2, 0.0]]", "tensor<2x2xf32>"),
            (std::vector<float>{1, -2, 300, 0}));
  EXPECT_EQ(value("0x7F800000", "tensor<f32>")[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ(value("\"0x0000803F00000040\"", "tensor<2xf32>"), (std::vector<float>{1, 2}));
  EXPECT_EQ(value("(1.0, 2.0)", "tensor<complex<f32>>"), (std::vector<float>{1, 2}));
}

TEST(InterpreterTest, SixteenBitFloatsRoundToNearestEven) {
  char bytes[2];
  const auto half = [&](double value) {
    StoreNumber(DType::kF16, {.re = value}, bytes);
    uint16_t bits;
    std::memcpy(&bits, bytes, 2);
    return bits;
  };
  EXPECT_EQ(half(1.0), 0x3C00);
  EXPECT_EQ(half(-2.0), 0xC000);
  EXPECT_EQ(half(65504), 0x7BFF);
  EXPECT_EQ(half(65520), 0x7C00);
  EXPECT_EQ(half(0x1p-24), 0x0001);
  EXPECT_EQ(half(0x1p-25), 0x0000) << "half of the smallest: to even";
  EXPECT_EQ(half(0x1p-14), 0x0400);
  EXPECT_EQ(half(1 + 0x1p-11), 0x3C00) << "tie to even";
  EXPECT_EQ(half(1 + 0x1p-10 + 0x1p-11), 0x3C02) << "tie to even";
  for (int bits = 0; bits < 0x10000; ++bits) {
    const uint16_t in = static_cast<uint16_t>(bits);
    char raw[2];
    std::memcpy(raw, &in, 2);
    for (DType dtype : {DType::kF16, DType::kBF16}) {
      const Number number = LoadNumber(dtype, raw);
      if (std::isnan(number.re)) continue;
      StoreNumber(dtype, number, bytes);
      ASSERT_EQ(std::memcmp(bytes, raw, 2), 0) << bits;
    }
  }
}

TEST(InterpreterTest, WhatItLacksIsNamed) {
  absl::StatusOr<HloModule> module = ParseModule(
      "module @m { func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
      "%r = stablehlo.erf %a : tensor<2xf32>\nreturn %r : tensor<2xf32> } }");
  ASSERT_TRUE(module.ok()) << module.status();
  const absl::Status status = CheckModule(*module);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("stablehlo.erf"), absl::string_view::npos);
}

TEST(InterpreterTest, BadOperandsAreRefusedBeforeTheyRun) {
  for (const char* op : {
           "stablehlo.add %a : tensor<2xf32>",
           "stablehlo.add %a, %a : tensor<3xf32>",
           "stablehlo.reshape %a : (tensor<2xf32>) -> tensor<3xf32>",
           "stablehlo.slice %a [0:3] : (tensor<2xf32>) -> tensor<3xf32>",
           "stablehlo.slice %a [1:0] : (tensor<2xf32>) -> tensor<1xf32>",
           "stablehlo.transpose %a, dims = [1] : (tensor<2xf32>) -> tensor<2xf32>",
           "stablehlo.broadcast_in_dim %a, dims = [5] : (tensor<2xf32>) -> tensor<2xf32>",
           "stablehlo.dynamic_slice %a, %a, sizes = [1] : (tensor<2xf32>, tensor<2xf32>) -> "
           "tensor<1xf32>",
           "stablehlo.concatenate %a, dim = 4 : (tensor<2xf32>) -> tensor<2xf32>",
           "stablehlo.iota dim = 1 : tensor<2xf32>",
           "stablehlo.select %a, %a, %a : tensor<2xf32>, tensor<2xf32>",
       }) {
    absl::StatusOr<HloModule> module = ParseModule(
        Cat("module @m { func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n",
            "%r = ", op, "\nreturn %a : tensor<2xf32> } }"));
    ASSERT_TRUE(module.ok()) << op << " " << module.status();
    EXPECT_EQ(CheckModule(*module).code(), absl::StatusCode::kInvalidArgument) << op;
  }
}

TEST(InterpreterTest, ASignatureSurvivesItsText) {
  absl::StatusOr<HloSignature> signature = ParseSignature(
      "module @\"aten.add_.Tensor\" attributes {mhlo.num_partitions = 1 : i32} {\n"
      "  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %arg1: "
      "tensor<2xcomplex<f64>>) -> (tensor<i1>, tensor<4xf32>) {\n");
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_EQ(signature->name, "aten.add_.Tensor");
  EXPECT_EQ(signature->aliases, (std::vector<int>{1, -1}));
  absl::StatusOr<HloSignature> again = ParseSignature(signature->ToText());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->name, signature->name);
  EXPECT_EQ(again->aliases, signature->aliases);
  EXPECT_EQ(again->parameters, signature->parameters);
  EXPECT_EQ(again->results, signature->results);
}

}  // namespace
}  // namespace neurond::fake
