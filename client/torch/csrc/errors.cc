#include "client/torch/csrc/errors.h"

#include <c10/util/Exception.h>

#include "client/torch/csrc/origin.h"

namespace neurond::shim {
namespace {

[[noreturn]] void Raise(const client::DeviceError& error) {
  const std::string text = Describe(error);
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  switch (error.kind) {
    case ring::ErrorKind::kIndex:
      throw c10::IndexError(here, text);
    case ring::ErrorKind::kOutOfMemory:
      throw c10::OutOfMemoryError(here, text);
    case ring::ErrorKind::kValue:
      throw c10::ValueError(here, text);
    case ring::ErrorKind::kLinalg:
      throw c10::LinAlgError(here, text);
    case ring::ErrorKind::kZeroDivision:  // PyTorch raises RuntimeError("ZeroDivisionError")
    case ring::ErrorKind::kRuntime:
      break;
  }
  throw c10::Error(here, text);
}

void Take(const Link& link, int stream, int device, uint64_t upto_seq, uint64_t buffer) {
  bool found = false;
  client::DeviceError error;
  Runtime::Get().Check(link,
                       link.client->TakeError(stream, device, upto_seq, buffer, &found, &error),
                       "reading an error");
  if (found) {
    Raise(error);
  }
}

}  // namespace

std::string Describe(const client::DeviceError& error) {
  std::string text = error.message.empty() ? "neuron: the device reported an error" : error.message;
  if (!error.op.empty()) {
    text += "\n  op: " + error.op;
  }
  if (!error.detail.empty()) {
    text += "\n  inputs: " + error.detail;
  }
  text += "\n  device: neuron:" + std::to_string(error.device);
  const std::string line = OriginText(error.origin);
  if (!line.empty()) {
    text += "\n" + line;
  }
  if (!error.stack.empty()) {
    text += "\n" + error.stack;
  }
  return text;
}

void RaiseStreamError(const Link& link, int stream, uint64_t upto_seq) {
  if (link.client->unreported() != 0) [[unlikely]] {
    Take(link, stream, -1, upto_seq, 0);
  }
}

void RaiseDeviceError(const Link& link, int device) {
  if (link.client->unreported() != 0) [[unlikely]] {
    Take(link, -1, device, UINT64_MAX, 0);
  }
}

void RaiseReadError(const Link& link, int stream, uint64_t buffer) {
  const uint64_t last = link.client->last_seq(stream);
  Take(link, -1, -1, UINT64_MAX, buffer);
  Take(link, stream, -1, last, 0);
  TORCH_CHECK(false, "neuron: a read failed and its error was reported to another caller");
}

}  // namespace neurond::shim
