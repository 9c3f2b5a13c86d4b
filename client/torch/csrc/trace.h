// Trace: the question to Python (client/torch/README.md, "What csrc asks Python") and its answer.
//
// Thread-safety: Trace takes the GIL; no lock may be held.

#ifndef NEUROND_CLIENT_TORCH_CSRC_TRACE_H_
#define NEUROND_CLIENT_TORCH_CSRC_TRACE_H_

#include <string>
#include <vector>

#include "client/torch/csrc/call.h"
#include "client/torch/csrc/entry.h"
#include "client/torch/csrc/python.h"
#include "client/torch/csrc/reference_run.h"

namespace neurond::shim {

struct TraceAnswer {
  enum class Status : uint8_t { kOk, kRefused, kDynamic, kRaised };
  Status status = Status::kRefused;
  std::string reason;
  bool lasting = false;    // the same trace will be refused again
  std::string error_type;  // kRaised: the exception's Python name
  std::string program;
  std::vector<ReturnSpec> returns;
  std::vector<int32_t> statics;
  uint64_t offsets = 0;
};

// The function behind _C.set_tracer; takes a reference. Needs the GIL.
void SetTracer(PyObject* function);

// statics: scalars to keep by value. An exception of the tracer is the status kRaised, with its
// type and text.
TraceAnswer Trace(const OpInfo& info, const Call& call, const std::vector<int32_t>& statics,
                  uint64_t graph, const torch::jit::Stack& stack, const Reference& reference);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_TRACE_H_
