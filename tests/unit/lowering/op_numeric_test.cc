// Semantics that StableHLO does not share with PyTorch, run on the plugin. Values are PyTorch's on
// the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/lowering/graph_builder.h"
#include "tests/unit/lowering/plugin_runner.h"

namespace neurond {
namespace {

using ::testing::ElementsAre;
using testing::FromBytes;
using testing::GraphBuilder;
using testing::I;
using testing::Ints;
using testing::LoweredProgram;
using testing::Sizes;
using testing::ToBytes;
using testing::V;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// op(a, b) on vectors of one dtype.
template <typename T, typename R = T>
std::vector<R> Binary(const std::string& op, DType dtype, const std::vector<T>& a,
                      const std::vector<T>& b, DType result, std::vector<Arg> more = {}) {
  GraphBuilder g;
  const int64_t n = static_cast<int64_t>(a.size());
  const int x = g.Input(dtype, {n}), y = g.Input(dtype, {n});
  std::vector<Arg> args{V(x), V(y)};
  args.insert(args.end(), more.begin(), more.end());
  g.Create(g.Node(op, args, {{result, {n}}}), {n});
  auto program = LoweredProgram::Make(g.graph);
  if (!program.ok()) {
    ADD_FAILURE() << program.status();
    return {};
  }
  const auto out = program->Run({ToBytes(a), ToBytes(b)}, {});
  if (!out.ok()) {
    ADD_FAILURE() << out.status();
    return {};
  }
  return FromBytes<R>((*out)[0]);
}

TEST(OpNumericTest, IntegerDivisionFollowsPythonsSigns) {
  const std::vector<int64_t> a{7, -7, 7, -7}, b{2, 2, -2, -2};
  EXPECT_THAT(Binary("aten.floor_divide.default", DType::kI64, a, b, DType::kI64),
              ElementsAre(3, -4, -4, 3));
  EXPECT_THAT(Binary("aten.remainder.Tensor", DType::kI64, a, b, DType::kI64),
              ElementsAre(1, 1, -1, -1));
  EXPECT_THAT(Binary("aten.fmod.Tensor", DType::kI64, a, b, DType::kI64),
              ElementsAre(1, -1, 1, -1));
}

TEST(OpNumericTest, MaximumKeepsNanAndFmaxIgnoresIt) {
  const std::vector<float> a{1, kNan, 3}, b{kNan, 2, 2};
  const auto maximum = Binary("aten.maximum.default", DType::kF32, a, b, DType::kF32);
  EXPECT_TRUE(std::isnan(maximum[0]) && std::isnan(maximum[1]));
  EXPECT_THAT(Binary("aten.fmax.default", DType::kF32, a, b, DType::kF32), ElementsAre(1, 2, 3));
}

TEST(OpNumericTest, UnsignedComparisonIsUnsigned) {
  const std::vector<uint8_t> a{200, 1}, b{100, 255};
  const auto less = Binary<uint8_t, uint8_t>("aten.lt.Tensor", DType::kU8, a, b, DType::kBool);
  EXPECT_THAT(less, ElementsAre(0, 1));
}

TEST(OpNumericTest, TrueDivisionOfIntegersIsFloat) {
  const std::vector<int64_t> a{7, 1}, b{2, 4};
  const auto quotient = Binary<int64_t, float>("aten.div.Tensor", DType::kI64, a, b, DType::kF32);
  EXPECT_THAT(quotient, ElementsAre(3.5F, 0.25F));
}

// Runs x[index] and returns {number of the failed check, its value, first result}.
std::vector<int64_t> IndexCheck(int64_t index) {
  GraphBuilder g;
  const int x = g.Input(DType::kI64, {3}), i = g.Input(DType::kI64, {2});
  g.Create(g.Node("aten.index.Tensor", {V(x), testing::List({V(i)})}, {{DType::kI64, {2}}}), {2});
  auto program = LoweredProgram::Make(g.graph);
  if (!program.ok()) return {};
  const auto out = program->Run({ToBytes<int64_t>({10, 20, 30}), ToBytes<int64_t>({index, 9})}, {});
  if (!out.ok()) return {};
  std::vector<int64_t> check = FromBytes<int64_t>((*out)[program->program().check_result]);
  check.push_back(FromBytes<int64_t>((*out)[0])[0]);
  return check;
}

TEST(OpNumericTest, TheFirstIndexOutOfRangeIsReported) {
  EXPECT_THAT(IndexCheck(7), ElementsAre(1, 7, ::testing::_));
  EXPECT_THAT(IndexCheck(-4), ElementsAre(1, -4, ::testing::_));
  EXPECT_THAT(IndexCheck(-1), ElementsAre(1, 9, 30));
}

// Ops along dimension 0 of x[3, 2] whose indices do not count from the end.
class PositionTest : public ::testing::TestWithParam<std::string> {
 protected:
  // {number of the failed check, its value}
  static std::vector<int64_t> Check(int64_t index) {
    const std::string op = "aten." + GetParam();
    const bool one = GetParam() == "gather.default" || GetParam() == "scatter.src";
    const bool reads =
        one ? GetParam() == "gather.default"
            : GetParam() == "embedding.default" || GetParam() == "index_select.default";
    const Sizes row = one ? Sizes{1, 1} : Sizes{1, 2};
    GraphBuilder g;
    const int x = g.Input(DType::kF32, {3, 2});
    const int i = g.Input(DType::kI64, one ? Sizes{1, 1} : Sizes{1});
    std::vector<Arg> args{V(x), I(0), V(i)};
    if (GetParam() == "embedding.default") args = {V(x), V(i)};
    std::vector<std::string> inputs{ToBytes(std::vector<float>(6, 1)),
                                    ToBytes(std::vector<int64_t>{index})};
    if (!reads) {
      args.push_back(V(g.Input(DType::kF32, row)));
      inputs.push_back(ToBytes(std::vector<float>(row[1], 5)));
    }
    const Sizes result = reads ? row : Sizes{3, 2};
    g.Create(g.Node(op, args, {{DType::kF32, result}}), result);
    auto program = LoweredProgram::Make(g.graph);
    if (!program.ok() || program->program().check_result < 0) return {};
    const auto out = program->Run(inputs, {});
    if (!out.ok()) return {};
    return FromBytes<int64_t>((*out)[program->program().check_result]);
  }
};

TEST_P(PositionTest, IsCheckedAtBothEnds) {
  EXPECT_THAT(Check(0), ElementsAre(0, 0));
  EXPECT_THAT(Check(2), ElementsAre(0, 0));
  EXPECT_THAT(Check(3), ElementsAre(1, 3));
  EXPECT_THAT(Check(-1), ElementsAre(1, -1));
}

INSTANTIATE_TEST_SUITE_P(Ops, PositionTest,
                         ::testing::Values("gather.default", "scatter.src", "index_select.default",
                                           "embedding.default", "index_add.default",
                                           "index_copy.default"),
                         [](const auto& info) {
                           return info.param.substr(0, info.param.find('.'));
                         });

TEST(OpNumericTest, IntegerDivisionByZeroIsReported) {
  GraphBuilder g;
  const int x = g.Input(DType::kI32, {2}), y = g.Input(DType::kI32, {2});
  g.Create(g.Node("aten.floor_divide.default", {V(x), V(y)}, {{DType::kI32, {2}}}), {2});
  auto program = LoweredProgram::Make(g.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->program().checks[0].message, "ZeroDivisionError");
  for (const int32_t divisor : {0, 5}) {
    const auto out = program->Run({ToBytes<int32_t>({1, 2}), ToBytes<int32_t>({1, divisor})}, {});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(FromBytes<int64_t>((*out)[1])[0], divisor == 0 ? 1 : 0);
  }
}

TEST(OpNumericTest, LongSumsKeepTheirAccuracy) {
  GraphBuilder g;
  const int64_t n = 1 << 20;
  const int x = g.Input(DType::kF32, {n});
  g.Create(g.Node("aten.sum.default", {V(x), {}}, {{DType::kF32, {}}}), {});
  auto program = LoweredProgram::Make(g.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto out = program->Run({ToBytes(std::vector<float>(n, 0.1F))}, {});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_NEAR(FromBytes<float>((*out)[0])[0] / (0.1 * n), 1.0, 1e-5);
}

TEST(OpNumericTest, ScalarsOfARunTimeExpressionStayFloat64) {
  GraphBuilder g;
  g.graph.float64_as_float32 = true;
  const int beta = g.Scalar(DType::kF64), step = g.Scalar(DType::kI64);
  const int power = g.Node("sym.pow", {V(beta), V(step)}, {{DType::kF64, {}}});
  g.Create(g.Node("sym.sub", {I(1), V(power)}, {{DType::kF64, {}}}), {});
  auto program = LoweredProgram::Make(g.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  const double b = 0.999;
  int64_t bits;
  std::memcpy(&bits, &b, sizeof(bits));
  const auto out = program->Run({}, {bits, 1});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_NEAR(FromBytes<double>((*out)[0])[0], 1 - 0.999, 1e-15);
}

TEST(OpNumericTest, RandomNumbersDependOnlyOnSeedAndOffset) {
  GraphBuilder g;
  g.graph.word_count = 2;
  g.graph.seed_word = 0;
  g.graph.offset_word = 1;
  const int state = g.Node("neuron.rng_state.default", {I(0)}, {{DType::kI64, {2}}});
  const int u = g.Node("neuron.rand.default", {V(state), I(3), Ints({64}), Arg{DType::kF32}},
                       {{DType::kF32, {64}}});
  g.Create(u, {64});
  auto program = LoweredProgram::Make(g.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto first = program->Run({}, {42, 0}), again = program->Run({}, {42, 0}),
             later = program->Run({}, {42, 1}), other = program->Run({}, {43, 0});
  EXPECT_EQ((*first)[0], (*again)[0]);
  EXPECT_NE((*first)[0], (*other)[0]);
  // One step of the offset is one step of the counter: four 32-bit words.
  EXPECT_EQ((*first)[0].substr(16), (*later)[0].substr(0, 240));
  for (float x : FromBytes<float>((*first)[0])) EXPECT_TRUE(x >= 0 && x < 1) << x;
}

}  // namespace
}  // namespace neurond
