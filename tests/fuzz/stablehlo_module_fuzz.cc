// A StableHLO module's text as a remote client could send it. What is accepted must be a module
// whose signature the daemon wrote itself, in which nothing reaches outside the program.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/grpc/mlir_text.h"
#include "server/grpc/stablehlo_module.h"
#include "server/grpc/utf8.h"

namespace {

using namespace neurond;  // NOLINT: the target is this namespace

void Check(bool condition) {
  if (!condition) std::abort();
}

void CheckProgram(const Program& program) {
  const auto tokens = TokenizeMlir(program.module);
  Check(tokens.ok());
  const auto main = FindMain(program.module, *tokens);
  Check(main.ok());
  Check(main->inputs.size() == program.parameters.size());
  Check(main->outputs.size() == static_cast<size_t>(program.result_count));
  for (size_t i = 0; i < main->inputs.size(); ++i) {
    const BufferSpec& buffer = program.buffers[program.parameters[i]];
    Check(main->inputs[i] == TensorType{buffer.dtype, {buffer.elements}});
  }
  for (const MlirToken& token : *tokens) {
    Check(token.kind != MlirTokenKind::kIdentifier || token.text != "stablehlo.send");
  }
  // Its own signature, declared, is accepted as well.
  Check(program.declared.has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string valid = ValidUtf8(text);
  Check(valid.size() <= text.size() && ValidUtf8(valid) == valid);
  if (const auto type = ParseTensorType(text); type.ok()) {
    const auto again = ParseTensorType(TensorTypeText(*type));
    Check(again.ok() && *again == *type);
  }
  const auto program = ProgramFromModule("fuzz", text, std::nullopt);
  if (!program.ok()) return 0;
  CheckProgram(*program);
  Check(ProgramFromModule("fuzz", text, program->declared).ok());
  return 0;
}
