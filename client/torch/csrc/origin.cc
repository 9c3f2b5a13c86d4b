#include "client/torch/csrc/origin.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "client/torch/csrc/limits.h"
#include "client/torch/csrc/python.h"
#include "client/torch/csrc/python_frame.h"
#include "client/torch/csrc/python_state.h"

namespace neurond::shim {
namespace {

// Code index 0: torch's own frames (skipped). Others: index into CodeTable::codes.
constexpr uint32_t kTorchCode = 0;
constexpr uint32_t kUnknownCode = UINT32_MAX;

struct CodeTable {
  std::mutex mutex;
  std::unordered_map<void*, uint32_t> index;
  std::vector<PyObject*> codes{nullptr};
};

CodeTable& Codes() {
  static CodeTable* table = new CodeTable();
  return *table;
}

std::vector<std::string>& OwnFolders() {
  static auto* folders = new std::vector<std::string>();
  return *folders;
}

bool IsTorchFile(PyObject* code) {
  PyObject* name = reinterpret_cast<PyCodeObject*>(code)->co_filename;
  const char* text = name != nullptr && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    return false;
  }
  const std::string_view file(text);
  const auto holds = [file](const std::string& folder) { return file.starts_with(folder); };
  return file.starts_with("<frozen") ||
         std::any_of(OwnFolders().begin(), OwnFolders().end(), holds);
}

// First sight of a code object: takes the GIL and a reference.
uint32_t Intern(void* code) {
  PyObject* object = static_cast<PyObject*>(code);
  bool torch_code = false;
  {
    GilGuard gil;
    if (!gil.held()) {
      return kUnknownCode;
    }
    Py_INCREF(object);
    torch_code = IsTorchFile(object);
  }
  CodeTable& table = Codes();
  std::lock_guard<std::mutex> lock(table.mutex);
  if (table.codes.size() >= kCodeObjectsMax) {
    return kUnknownCode;  // the reference is kept: harmless, and giving it back needs the GIL
  }
  const uint32_t next = torch_code ? kTorchCode : static_cast<uint32_t>(table.codes.size());
  const auto [at, fresh] = table.index.emplace(code, next);
  if (fresh && !torch_code) {
    table.codes.push_back(object);
  }
  return at->second;
}

uint32_t CodeIndex(void* code) {
  struct Slot {
    void* code = nullptr;
    uint32_t index = 0;
  };
  thread_local std::array<Slot, 256> recent;
  Slot& slot = recent[(reinterpret_cast<uintptr_t>(code) >> 5) & 255];
  if (slot.code == code) [[likely]] {
    return slot.index;
  }
  CodeTable& table = Codes();
  {
    std::lock_guard<std::mutex> lock(table.mutex);
    if (const auto at = table.index.find(code); at != table.index.end()) {
      slot = {code, at->second};
      return at->second;
    }
  }
  const uint32_t index = Intern(code);
  if (index != kUnknownCode) {
    slot = {code, index};
  }
  return index;
}

// Forward lines by (thread, sequence number): a ring of two words each, racy by design: a torn
// entry fails the tag check.
struct ForwardLine {
  std::atomic<uint64_t> tag{0}, origin{0};
};
std::array<ForwardLine, kForwardLinesMax>& ForwardLines() {
  static auto* lines = new std::array<ForwardLine, kForwardLinesMax>();
  return *lines;
}
uint64_t Tag(uint64_t thread, uint64_t sequence) { return (thread << 40) ^ (sequence + 1); }

// Whether autograd has made a node on this thread that no line was noted for: a node is made just
// before the op that it belongs to runs, and the ops after that must not claim it.
thread_local uint64_t noted_sequence = 0;
bool IsNewNode() { return at::sequence_number::peek() != noted_sequence; }

void RememberForward(uint64_t origin) {
  if (!IsNewNode()) {
    return;
  }
  thread_local const uint64_t thread = at::RecordFunction::currentThreadId();
  const uint64_t next = noted_sequence = at::sequence_number::peek();
  const uint64_t tag = Tag(thread, next - 1);
  ForwardLine& line = ForwardLines()[tag & (kForwardLinesMax - 1)];
  line.tag.store(0, std::memory_order_relaxed);
  line.origin.store(origin, std::memory_order_release);
  line.tag.store(tag, std::memory_order_release);
}

uint64_t ForwardOrigin() {
  const auto node = torch::autograd::get_current_node();
  if (!node || node->sequence_nr() == UINT64_MAX) {
    return 0;
  }
  const uint64_t tag = Tag(node->thread_id(), node->sequence_nr());
  ForwardLine& line = ForwardLines()[tag & (kForwardLinesMax - 1)];
  if (line.tag.load(std::memory_order_acquire) != tag) {
    return 0;
  }
  const uint64_t origin = line.origin.load(std::memory_order_acquire);
  return line.tag.load(std::memory_order_acquire) == tag ? origin : 0;
}

}  // namespace

void SetOwnFolders(std::vector<std::string> folders) { OwnFolders() = std::move(folders); }

uint64_t CurrentOrigin() {
  PythonFrame* frame = InnermostFrame();
  for (int depth = 0; frame != nullptr && depth < kFramesMax; ++depth, frame = OuterFrame(frame)) {
    uint32_t instruction = 0;
    void* code = FrameCode(frame, &instruction);
    if (code == nullptr) {
      continue;
    }
    const uint32_t index = CodeIndex(code);
    if (index == kUnknownCode) {
      return 0;
    }
    if (index != kTorchCode) {
      const uint64_t origin = (uint64_t{index} << 32) | instruction;
      RememberForward(origin);
      return origin;
    }
  }
  const uint64_t origin = ForwardOrigin();
  RememberForward(origin);  // of a node made in backward (create_graph)
  return origin;
}

void NoteForwardLine() {
  if (IsNewNode()) {
    CurrentOrigin();
  }
}

std::string OriginText(uint64_t origin) {
  const auto index = static_cast<uint32_t>(origin >> 32);
  PyObject* code = nullptr;
  {
    CodeTable& table = Codes();
    std::lock_guard<std::mutex> lock(table.mutex);
    if (index == 0 || index >= table.codes.size()) {
      return "";
    }
    code = table.codes[index];
  }
  GilGuard gil;
  if (!gil.held()) {
    return "";
  }
  PyErrorScope keep;
  const int line = PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(code),
                                    static_cast<int>(origin & UINT32_MAX));
  PyRef file(PyObject_GetAttrString(code, "co_filename"));
  PyRef name(PyObject_GetAttrString(code, "co_name"));
  std::string text = "  File \"" + PyText(file.get()) + "\", line " + std::to_string(line) +
                     ", in " + PyText(name.get());
  PyRef linecache(PyImport_ImportModule("linecache"));
  PyRef source(linecache ? PyObject_CallMethod(linecache.get(), "getline", "Oi", file.get(), line)
                         : nullptr);
  std::string code_line = source ? PyText(source.get()) : "";
  const size_t first = code_line.find_first_not_of(" \t");
  const size_t last = code_line.find_last_not_of(" \t\r\n");
  if (first != std::string::npos) {
    text += "\n    " + code_line.substr(first, last - first + 1);
  }
  PyErr_Clear();
  return text;
}

}  // namespace neurond::shim
