#include "server/grpc/stablehlo_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neurond {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Module(const std::string& body) {
  return "module @m {\n func.func public @main(%a: tensor<2x3xf32>, %e: tensor<0x3xi64>) -> "
         "(tensor<f32>, tensor<0xi1>) {\n" +
         body + "\n }\n}\n";
}

TEST(ProgramFromModuleTest, FlattensTheSignatureAndLeavesOutEmptyTensors) {
  const auto program = ProgramFromModule("m", Module("BODY"), std::nullopt);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->buffers, ElementsAre(BufferSpec{DType::kF32, 6}));
  EXPECT_THAT(program->parameters, ElementsAre(0));
  EXPECT_THAT(program->created, ElementsAre(BufferSpec{DType::kF32, 1}));
  EXPECT_THAT(program->created_results, ElementsAre(0));
  EXPECT_EQ(program->result_count, 1);
  EXPECT_FALSE(program->empty);
  EXPECT_THAT(program->declared->inputs,
              ElementsAre(TensorType{DType::kF32, {2, 3}}, TensorType{DType::kI64, {0, 3}}));
  EXPECT_THAT(program->module, HasSubstr("@main(%flat0: tensor<6xf32>) -> (tensor<1xf32>)"));
  EXPECT_THAT(program->module,
              HasSubstr("func.func private @neurond_inner_main(%a: tensor<2x3xf32>"));
  EXPECT_THAT(program->module, HasSubstr("BODY"));
}

TEST(ProgramFromModuleTest, AModuleWithoutResultsIsEmpty) {
  const auto program =
      ProgramFromModule("m", "func.func @main(%a: tensor<2xf32>) { return }", std::nullopt);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE(program->empty);
}

TEST(ProgramFromModuleTest, NamesTheFirstDifferenceFromTheDeclaredSignature) {
  DeclaredTypes declared{{{DType::kF32, {2, 3}}, {DType::kI64, {0, 3}}},
                         {{DType::kF32, {}}, {DType::kBool, {0}}}};
  EXPECT_TRUE(ProgramFromModule("m", Module(""), declared).ok());
  declared.inputs[0].sizes = {3, 2};  // the same bytes
  const auto program = ProgramFromModule("m", Module(""), declared);
  EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(program.status().message()),
              HasSubstr("input 0: declared tensor<3x2xf32>, @main has tensor<2x3xf32>"));
}

class RefusedTest : public testing::TestWithParam<const char*> {};

TEST_P(RefusedTest, Refuses) {
  EXPECT_FALSE(ProgramFromModule("m", Module(GetParam()), std::nullopt).ok());
}

INSTANTIATE_TEST_SUITE_P(
    Bodies, RefusedTest,
    testing::Values(
        "%0 = stablehlo.custom_call @callback(%a) : (tensor<2x3xf32>) -> tensor<f32>",
        "%0 = \"stablehlo.custom_call\"(%a) <{call_target_name = \"Sharding\"}> : () -> ()",
        "%0 = \"vhlo.custom_call_v1\"(%a) : () -> ()",
        "%0 = \"stablehlo.\\63ustom_call\"(%a) : () -> ()", "%0 = stablehlo.all_reduce %a",
        "%0 = mhlo.all_reduce %a", "%0 = \"stablehlo.send\" (%a)", "%0 = stablehlo.infeed",
        "\"func.func\"() <{sym_name = \"x\"}> ({}) : () -> ()",
        "func.call @neurond_inner_main() : () -> ()"));

TEST(ProgramFromModuleTest, OpsThatReachOutsideAreUnimplementedAndNamed) {
  const auto program = ProgramFromModule(
      "m", Module("stablehlo.custom_call @xla_python_cpu_callback(%a)"), std::nullopt);
  EXPECT_EQ(program.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(program.status().message()),
              HasSubstr("stablehlo.custom_call @xla_python_cpu_callback"));
}

TEST(ProgramFromModuleTest, MentionsInStringsAndCommentsAreNotOps) {
  EXPECT_TRUE(ProgramFromModule("m",
                                Module("// stablehlo.custom_call @x\n loc(\"stablehlo.send\")"),
                                std::nullopt)
                  .ok());
}

TEST(ProgramFromModuleTest, AModuleForSeveralDevicesIsRefused) {
  const std::string text =
      "module attributes {mhlo.num_partitions = 2 : i32} { func.func @main() { return } }";
  const auto program = ProgramFromModule("m", text, std::nullopt);
  EXPECT_THAT(std::string(program.status().message()), HasSubstr("mhlo.num_partitions = 1, saw 2"));
}

}  // namespace
}  // namespace neurond
