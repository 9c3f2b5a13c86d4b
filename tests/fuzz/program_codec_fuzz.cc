// Program bytes as a client could send them: decoded, validated and lowered. Refusal is fine, a
// crash is not.
#include <cstdint>
#include <string_view>

#include "runtime/lowering/lowering.h"
#include "server/wire/program_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto graph = neurond::wire::DecodeProgram({reinterpret_cast<const char*>(data), size});
  if (graph.ok()) (void)neurond::Lower(*graph);
  return 0;
}
