#include "server/grpc/mlir_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neurond {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Texts(std::string_view source) {
  const auto tokens = TokenizeMlir(source);
  EXPECT_TRUE(tokens.ok()) << tokens.status();
  std::vector<std::string> texts;
  if (tokens.ok()) {
    for (const MlirToken& token : *tokens) texts.emplace_back(token.text);
  }
  return texts;
}

absl::StatusOr<MlirFunction> Main(std::string_view source) {
  const auto tokens = TokenizeMlir(source);
  if (!tokens.ok()) return tokens.status();
  return FindMain(source, *tokens);
}

TEST(TokenizeMlirTest, TellsCommentsStringsSymbolsAndValuesApart) {
  EXPECT_THAT(Texts("%0 = \"a.b\"(%x-1) // @main \"\n -> @f"),
              ElementsAre("%0", "=", "\"a.b\"", "(", "%x-1", ")", "->", "@f"));
}

TEST(TokenizeMlirTest, ANumberedValueEndsAtItsDigits) {
  EXPECT_THAT(Texts("%0stablehlo.send"), ElementsAre("%0", "stablehlo.send"));
}

TEST(TokenizeMlirTest, AnEscapedQuoteDoesNotEndAString) {
  EXPECT_THAT(Texts("\"a\\\" // b\" c"), ElementsAre("\"a\\\" // b\"", "c"));
}

TEST(TokenizeMlirTest, RefusesUnterminatedStringsAndStrayBytes) {
  EXPECT_FALSE(TokenizeMlir("\"abc").ok());
  EXPECT_FALSE(TokenizeMlir("\"abc\n\"").ok());
  EXPECT_FALSE(TokenizeMlir("\"abc\\").ok());
  EXPECT_THAT(std::string(TokenizeMlir(std::string_view("a\n\0b", 4)).status().message()),
              HasSubstr("line 2"));
  EXPECT_FALSE(TokenizeMlir("\xc3\xa9").ok());
}

TEST(ParseTensorTypeTest, ReadsEveryElementTypeBack) {
  for (int i = 1; i < kDTypeCount; ++i) {
    const TensorType type{static_cast<DType>(i), {2, 0, 3}};
    const auto parsed = ParseTensorType(TensorTypeText(type));
    if (HloName(type.dtype).empty()) continue;
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    // bool is i1; no other two share a name.
    EXPECT_EQ(*parsed, type) << TensorTypeText(type);
  }
  EXPECT_EQ(ParseTensorType("tensor<f32>")->sizes.size(), 0u);
}

TEST(ParseTensorTypeTest, RefusesWhatIsNotAStaticTensor) {
  for (const char* text : {"tensor<?x4xf32>", "tensor<4x?xf32>", "tensor<*xf32>",
                           "tensor<4xf8E4M3>", "tensor<4xf32, #a>", "tensor<4x>", "tensor<>",
                           "tensor<-1xf32>", "tensor<4294967296x4294967296xf32>",
                           "tensor<99999999999999999999xf32>", "tensor<17179869185xf32>"}) {
    EXPECT_FALSE(ParseTensorType(text).ok()) << text;
  }
}

TEST(FindMainTest, ReadsArgumentsResultsAndAttributes) {
  const auto main = Main(R"(module @m attributes {a = {b = 1 : i32}} {
    func.func private @helper(%arg0: tensor<i1>) -> tensor<i1> { return %arg0 : tensor<i1> }
    func.func public @main(%a: tensor<4x8xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<complex<f32>> loc("x"))
        -> (tensor<bf16> {jax.result_info = "[0]"}, tensor<3xui8>) attributes {x} { }
  })");
  ASSERT_TRUE(main.ok()) << main.status();
  EXPECT_THAT(main->argument_names, ElementsAre("%a", "%b"));
  EXPECT_THAT(main->inputs,
              ElementsAre(TensorType{DType::kF32, {4, 8}}, TensorType{DType::kC64, {}}));
  EXPECT_THAT(main->outputs,
              ElementsAre(TensorType{DType::kBF16, {}}, TensorType{DType::kU8, {3}}));
}

TEST(FindMainTest, TakesAModuleWithoutAModuleOp) {
  const auto main = Main("func.func @main() -> tensor<f32> { }");
  ASSERT_TRUE(main.ok()) << main.status();
  EXPECT_EQ(main->begin, 0u);
}

TEST(FindMainTest, TheModuleMayBeCalledMainToo) {
  EXPECT_TRUE(Main("module @main { func.func @main() { } }").ok());
}

TEST(FindMainTest, RefusesWhatIsNotOneMainAtTheTop) {
  for (const char* source : {
           "module { }",
           "module { func.func @other() { } }",
           "module { module { func.func @main() { } } }",                      // nested
           "module { func.func @main() { } func.func @main() { } }",           // twice
           "module { func.func @main() { func.call @main() : () -> () } }",    // recursive
           "module { func.func @\"main\"() { } }",                             // quoted
           "module { func.func @main(%a: !t) { } }",                           // alias
           "module { func.func @main(%a: tensor<2xf32>, ) -> tensor<2xf32> ",  // cut off
           "module { func.func @main(tensor<2xf32>) }",                        // declaration
           "// func.func @main() { }",
       }) {
    EXPECT_FALSE(Main(source).ok()) << source;
  }
}

}  // namespace
}  // namespace neurond
