// What can be said of a Program from its text and signature alone.
#include "runtime/lowering/lowering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/limits.h"
#include "tests/unit/lowering/graph_builder.h"

namespace neurond {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::F;
using testing::GraphBuilder;
using ::testing::HasSubstr;
using testing::I;
using testing::Ints;
using ::testing::Not;
using testing::V;

constexpr DType kF32 = DType::kF32;

GraphBuilder AddGraph() {
  GraphBuilder b;
  const int x = b.Input(kF32, {4}), y = b.Input(kF32, {4});
  b.Create(b.Node("aten.add.Tensor", {V(x), V(y), I(1)}, {{kF32, {4}}}), {4});
  return b;
}

TEST(LoweringTest, TheModuleTakesFlatBuffersThenWords) {
  GraphBuilder b;
  const int x = b.Input(kF32, {2, 3});
  const int s = b.Scalar(DType::kF64);
  b.Create(b.Node("aten.mul.Tensor", {V(x), V(s)}, {{kF32, {2, 3}}}), {2, 3});
  const auto program = Lower(b.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->module,
              HasSubstr("@main(%arg0: tensor<6xf32>, %arg1: tensor<1xi64>) -> (tensor<6xf32>)"));
  EXPECT_THAT(program->module, HasSubstr("module @\"test\""));
  EXPECT_THAT(program->created, ElementsAre(BufferSpec{kF32, 6}));
  EXPECT_EQ(program->detail, "float32[2, 3]");
}

// It stands in every list and message; who sent it may have no measure.
TEST(LoweringTest, ALongNameIsKeptShort) {
  GraphBuilder b = AddGraph();
  b.graph.name = std::string(3'000'000, 'n');
  const auto program = Lower(b.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_LT(program->name.size(), 2 * kProgramNameBytesMax);
}

TEST(LoweringTest, TheTextIsTheSameEachTime) {
  EXPECT_EQ(Lower(AddGraph().graph)->module, Lower(AddGraph().graph)->module);
}

TEST(LoweringTest, AnUnknownOpIsRefusedByName) {
  GraphBuilder b;
  const int x = b.Input(kF32, {4});
  b.Create(b.Node("aten.foo.default", {V(x)}, {{kF32, {4}}}), {4});
  const auto program = Lower(b.graph);
  EXPECT_EQ(program.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(std::string(program.status().message()), "no lowering for aten.foo.default");
}

TEST(LoweringTest, AResultOfAnotherTypeThanTracedIsInternalAndNamesTheOp) {
  GraphBuilder b;
  const int x = b.Input(kF32, {4});
  b.Create(b.Node("aten.neg.default", {V(x)}, {{kF32, {5}}}), {5});
  const auto program = Lower(b.graph);
  EXPECT_EQ(program.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("aten.neg.default: result 0"));
}

TEST(LoweringTest, AWrittenBufferIsAliasedToItsParameter) {
  GraphBuilder b;
  const int x = b.Input(kF32, {4});
  const int y = b.Node("aten.neg.default", {V(x)}, {{kF32, {4}}});
  b.Create(y, {4});
  b.Write(y, 0, {kF32, {4}, {1}, -1});
  const auto program = Lower(b.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->written, ElementsAre(0));
  EXPECT_THAT(program->written_results, ElementsAre(1));
  EXPECT_THAT(program->module, HasSubstr("%arg0: tensor<4xf32> {tf.aliasing_output = 1 : i32}"));
}

TEST(LoweringTest, ARunTimeOffsetIsBoundInElementsOfTheViewsDType) {
  GraphBuilder b;
  const int buffer = b.Buffer(DType::kU8, 64);
  b.graph.word_count = 1;
  const int x = b.InputView(buffer, {kF32, {2, 3}, {4, 1}, 0});
  b.Create(x, {2, 3});
  const auto program = Lower(b.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_EQ(program->bounds.size(), 1u);
  EXPECT_EQ(program->bounds[0].word, 0);
  EXPECT_EQ(program->bounds[0].span, 7);
  EXPECT_EQ(program->bounds[0].elements, 16);
}

TEST(LoweringTest, AWriteAtARunTimeOffsetIsBoundToo) {
  GraphBuilder b;
  const int x = b.Input(kF32, {2, 3});
  const int buffer = b.Buffer(kF32, 16);
  b.graph.word_count = 1;
  b.Write(x, buffer, {kF32, {2, 3}, {4, 1}, 0});
  const auto program = Lower(b.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_EQ(program->bounds.size(), 1u);
  EXPECT_EQ(program->bounds[0].buffer, buffer);
  EXPECT_EQ(program->bounds[0].span, 7);
  EXPECT_EQ(program->bounds[0].elements, 16);
}

TEST(LoweringTest, EmptyTensorsAreNoParametersAndNoResults) {
  GraphBuilder b;
  const int x = b.Input(kF32, {0, 3});
  b.Create(b.Node("aten.neg.default", {V(x)}, {{kF32, {0, 3}}}), {0, 3});
  const auto program = Lower(b.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE(program->empty);
  EXPECT_TRUE(program->parameters.empty());
  EXPECT_THAT(program->created_results, ElementsAre(-1));
}

TEST(LoweringTest, AnUnusedBufferIsNoParameter) {
  GraphBuilder b = AddGraph();
  b.Buffer(kF32, 100);
  EXPECT_THAT(Lower(b.graph)->parameters, ElementsAre(0, 1));
}

TEST(LoweringTest, Float64ComputesAsFloat32AndIsStoredAsFloat64) {
  GraphBuilder b;
  const int x = b.Input(DType::kF64, {4});
  b.Create(b.Node("aten.exp.default", {V(x)}, {{DType::kF64, {4}}}), {4});
  EXPECT_THAT(Lower(b.graph)->module, HasSubstr("exponential %arg0 : tensor<4xf64>"));
  b.graph.float64_as_float32 = true;
  const auto program = Lower(b.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->module,
              AllOf(HasSubstr("-> (tensor<4xf64>)"), HasSubstr(": tensor<4xf32>\n"),
                    Not(HasSubstr("exponential %arg0 : tensor<4xf64>"))));
  EXPECT_THAT(program->created, ElementsAre(BufferSpec{DType::kF64, 4}));
}

TEST(LoweringTest, AnIndexOpDeclaresItsCheckInPyTorchsWords) {
  GraphBuilder b;
  const int x = b.Input(kF32, {3}), i = b.Input(DType::kI64, {2});
  b.Create(b.Node("aten.index.Tensor", {V(x), testing::List({V(i)})}, {{kF32, {2}}}), {2});
  const auto program = Lower(b.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_EQ(program->checks.size(), 1u);
  EXPECT_EQ(program->checks[0].message,
            "index {value} is out of bounds for dimension 0 with size 3");
  EXPECT_EQ(program->checks[0].kind, ErrorKind::kIndex);
  EXPECT_EQ(program->check_result, 1);
}

TEST(LoweringTest, DotsAreTwoDimensionalAndContractOneDimension) {
  GraphBuilder b;
  const int x = b.Input(kF32, {4, 8}), w = b.Input(kF32, {8, 2});
  b.Create(b.Node("aten.mm.default", {V(x), V(w)}, {{kF32, {4, 2}}}), {4, 2});
  EXPECT_THAT(Lower(b.graph)->module, HasSubstr("contracting_dims = [1] x [0]"));
}

TEST(LoweringTest, RandomNumbersNameTheirAlgorithm) {
  GraphBuilder b;
  b.graph.word_count = 2;
  b.graph.seed_word = 0;
  b.graph.offset_word = 1;
  const int state = b.Node("neuron.rng_state.default", {I(0)}, {{DType::kI64, {2}}});
  b.Create(b.Node("neuron.rand.default", {V(state), I(0), Ints({8}), Arg{kF32}}, {{kF32, {8}}}),
           {8});
  const auto program = Lower(b.graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->module, HasSubstr("rng_algorithm PHILOX"));
  b.graph.seed_word = b.graph.offset_word = -1;
  EXPECT_FALSE(Lower(b.graph).ok());
}

TEST(LoweringTest, OutputStridesMustBeADensePermutation) {
  GraphBuilder b = AddGraph();
  b.graph.outputs[0].strides = {2};
  EXPECT_THAT(std::string(Lower(b.graph).status().message()), HasSubstr("not a dense permutation"));
}

TEST(LoweringTest, ANameCannotEndTheSymbol) {
  GraphBuilder b = AddGraph();
  b.graph.name = "a\" { } \n evil";
  EXPECT_THAT(Lower(b.graph)->module, HasSubstr("module @\"a________evil\""));
}

}  // namespace
}  // namespace neurond
