#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/limits.h"
#include "tests/unit/lowering/graph_builder.h"

namespace neurond {
namespace {

using testing::GraphBuilder;
using ::testing::HasSubstr;
using testing::V;

std::string Message(const Graph& graph) { return std::string(Validate(graph).message()); }

TEST(ViewTest, SpanCountsFromTheFirstToTheLastTouchedElement) {
  EXPECT_EQ((View{DType::kF32, {3, 4}, {10, 2}, -1}.Span()), 2 * 10 + 3 * 2 + 1);
  EXPECT_EQ((View{DType::kF32, {}, {}, -1}.Span()), 1);
  EXPECT_EQ((View{DType::kF32, {3, 0}, {10, 2}, -1}.Span()), 0);
  EXPECT_EQ((View{DType::kF32, {5}, {0}, -1}.Span()), 1);
}

TEST(ValidateTest, AViewBeyondItsBufferIsRefused) {
  GraphBuilder b;
  const int buffer = b.Buffer(DType::kF32, 12);
  b.InputView(buffer, {DType::kF32, {3, 4}, {4, 1}, -1});
  EXPECT_TRUE(Validate(b.graph).ok());
  b.graph.inputs[0].view.strides = {4, 2};
  EXPECT_THAT(Message(b.graph), HasSubstr("reach beyond buffer 0 of 12 float32"));
  // In elements of the View's dtype.
  b.graph.inputs[0].view = {DType::kF64, {6}, {1}, -1};
  EXPECT_TRUE(Validate(b.graph).ok());
  b.graph.inputs[0].view.sizes = {7};
  EXPECT_FALSE(Validate(b.graph).ok());
}

TEST(ValidateTest, ProductsThatWouldOverflowAreRefused) {
  GraphBuilder b;
  const int buffer = b.Buffer(DType::kF32, 12);
  b.InputView(buffer, {DType::kF32, {1 << 20, 1 << 20, 1 << 20, 1 << 20}, {0, 0, 0, 0}, -1});
  EXPECT_THAT(Message(b.graph), HasSubstr("more than"));
  b.graph.inputs[0].view = {DType::kF32, {2}, {INT64_MAX}, -1};
  EXPECT_THAT(Message(b.graph), HasSubstr("stride"));
}

TEST(ValidateTest, AnArgumentNamesOnlyEarlierValues) {
  GraphBuilder b;
  const int x = b.Input(DType::kF32, {4});
  b.Node("aten.neg.default", {V(x)}, {{DType::kF32, {4}}});
  EXPECT_TRUE(Validate(b.graph).ok());
  b.graph.nodes[0].args[0] = V(1);
  EXPECT_THAT(Message(b.graph), HasSubstr("aten.neg.default: an argument names value 1 of 1"));
  b.graph.nodes[0].args[0] = testing::List({V(-1)});
  EXPECT_FALSE(Validate(b.graph).ok());
}

TEST(ValidateTest, WordsAndBuffersAreInRange) {
  GraphBuilder b;
  const int buffer = b.Buffer(DType::kF32, 12);
  b.InputView(buffer, {DType::kF32, {3}, {1}, 0});
  EXPECT_THAT(Message(b.graph), HasSubstr("no word 0 of 0"));
  b.graph.word_count = kProgramWordsMax;
  EXPECT_TRUE(Validate(b.graph).ok());
  b.graph.word_count = kProgramWordsMax + 1;  // no Session would take it
  EXPECT_THAT(Message(b.graph), HasSubstr("has 65537 words, at most 65536"));
  b.graph.word_count = 1;
  EXPECT_TRUE(Validate(b.graph).ok());
  b.Write(0, 1, {DType::kF32, {3}, {1}, -1});
  EXPECT_THAT(Message(b.graph), HasSubstr("no buffer 1"));
  b.graph.seed_word = 0;
  EXPECT_THAT(Message(b.graph), HasSubstr("seed word without an offset word"));
}

}  // namespace
}  // namespace neurond
