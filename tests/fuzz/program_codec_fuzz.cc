// Program bytes as a client could send them: decoded, validated and lowered. Refusal is fine, a
// crash is not, nor is a Program whose indices a Session could not trust.
#include <google/protobuf/stubs/logging.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runtime/lowering/lowering.h"
#include "runtime/program/program_codec.h"
#include "server/wire/program_codec.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // a line for each string that is not UTF-8
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto graph = neurond::wire::DecodeProgram({reinterpret_cast<const char*>(data), size});
  if (!graph.ok()) return 0;
  const auto program = neurond::Lower(*graph);
  if (program.ok() && !neurond::CheckProgram(*program).ok()) std::abort();
  return 0;
}
