// Reads and writes through Views against a plain loop, for every offset that keeps the View inside
// its Buffer.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/lowering/graph_builder.h"
#include "tests/unit/lowering/plugin_runner.h"

namespace neurond {
namespace {

using testing::FromBytes;
using testing::GraphBuilder;
using testing::LoweredProgram;
using testing::Sizes;
using testing::ToBytes;

struct Case {
  const char* name;
  Sizes sizes, strides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr int64_t kElements = 60;

// Positions that the View touches, in row-major order of its sizes.
std::vector<int64_t> Positions(const Case& c, int64_t offset) {
  std::vector<int64_t> out{offset};
  for (size_t d = 0; d < c.sizes.size(); ++d) {
    std::vector<int64_t> next;
    for (int64_t base : out) {
      for (int64_t i = 0; i < c.sizes[d]; ++i) next.push_back(base + i * c.strides[d]);
    }
    out = next;
  }
  return out;
}

class ViewNumericTest : public ::testing::TestWithParam<Case> {};

TEST_P(ViewNumericTest, ReadsWhatTheStridesName) {
  const Case& c = GetParam();
  GraphBuilder b;
  const int buffer = b.Buffer(DType::kI32, kElements);
  b.graph.word_count = 1;
  const View view{DType::kI32, c.sizes, c.strides, 0};
  b.Create(b.InputView(buffer, view), c.sizes);
  auto program = LoweredProgram::Make(b.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<int32_t> data(kElements);
  std::iota(data.begin(), data.end(), 100);
  for (int64_t offset = 0; offset + view.Span() <= kElements; ++offset) {
    const auto out = program->Run({ToBytes(data)}, {offset});
    ASSERT_TRUE(out.ok()) << out.status();
    std::vector<int32_t> expected;
    for (int64_t at : Positions(c, offset)) expected.push_back(data[at]);
    EXPECT_EQ(FromBytes<int32_t>((*out)[0]), expected) << "offset " << offset;
  }
}

TEST_P(ViewNumericTest, WritesWhatTheStridesNameAndNothingElse) {
  const Case& c = GetParam();
  GraphBuilder b;
  const int value = b.Input(DType::kI32, c.sizes);
  const int buffer = b.Buffer(DType::kI32, kElements);
  b.graph.word_count = 1;
  const View view{DType::kI32, c.sizes, c.strides, 0};
  b.Write(value, buffer, view);
  auto program = LoweredProgram::Make(b.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<int32_t> data(kElements), update(view.Elements());
  std::iota(data.begin(), data.end(), 100);
  std::iota(update.begin(), update.end(), -1000);
  for (int64_t offset = 0; offset + view.Span() <= kElements; ++offset) {
    const auto out = program->Run({ToBytes(update), ToBytes(data)}, {offset});
    ASSERT_TRUE(out.ok()) << out.status();
    std::vector<int32_t> expected = data;
    const std::vector<int64_t> at = Positions(c, offset);
    for (size_t i = 0; i < at.size(); ++i) expected[at[i]] = update[i];
    EXPECT_EQ(FromBytes<int32_t>((*out)[0]), expected) << "offset " << offset;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ViewNumericTest,
    ::testing::Values(Case{"scalar", {}, {}}, Case{"run", {7}, {1}}, Case{"column", {5}, {10}},
                      Case{"oddColumn", {5}, {7}}, Case{"columns", {4, 3}, {10, 1}},
                      Case{"transposed", {3, 4}, {1, 10}}, Case{"steps", {4, 3}, {10, 3}},
                      Case{"wrapping", {3, 4}, {8, 1}}, Case{"box", {2, 2, 2}, {30, 10, 3}},
                      Case{"ones", {1, 3, 1}, {99, 5, 0}},
                      Case{"overlappingDiagonals", {3, 3}, {4, 3}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ViewNumericTest, WritesToOneBufferApplyInOrder) {
  GraphBuilder b;
  const int x = b.Input(DType::kI32, {4}), y = b.Input(DType::kI32, {2});
  const int buffer = b.Buffer(DType::kI32, 6);
  b.Write(x, buffer, {DType::kI32, {4}, {1}, -1});
  b.Write(y, buffer, {DType::kI32, {2}, {3}, -1});
  auto program = LoweredProgram::Make(b.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto out = program->Run({ToBytes<int32_t>({1, 2, 3, 4}), ToBytes<int32_t>({8, 9}),
                                 ToBytes<int32_t>({0, 0, 0, 0, 0, 0})},
                                {});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(FromBytes<int32_t>((*out)[0]), (std::vector<int32_t>{8, 2, 3, 9, 0, 0}));
}

TEST(ViewNumericTest, AViewOfAnotherDTypeIsTheBuffersBytes) {
  GraphBuilder b;
  const int buffer = b.Buffer(DType::kF32, 4);
  const int x = b.InputView(buffer, {DType::kI16, {4}, {2}, -1});
  b.Create(x, {4});
  auto program = LoweredProgram::Make(b.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  const std::vector<int16_t> halves{1, 2, 3, 4, 5, 6, 7, 8};
  const auto out = program->Run({ToBytes(halves)}, {});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(FromBytes<int16_t>((*out)[0]), (std::vector<int16_t>{1, 3, 5, 7}));
}

}  // namespace
}  // namespace neurond
