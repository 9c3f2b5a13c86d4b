// Call: one op call taken apart: its key, its tensors and Buffers, its run-time numbers.
//
// The key holds everything that the Program depends on: op, settings, per tensor dtype, sizes, View
// and which arguments share a Buffer; each number's type; everything else by value. It does not
// hold: the device, offsets, the numbers' values. Key words, in order of the arguments (a word's
// top byte says what follows):
//   op id | settings | per argument:
//     kTagNone
//     kTagTensor   | flags | ndim | slot | buffer dtype | dtype     then sizes, [strides unless
//     those of a new tensor], [buffer elements unless whole] kTagHost     | dtype | wrapped a 0-dim
//     CPU tensor or a number: run-time scalar kTagList     | kind | length then the items kTagInt /
//     kTagDouble / kTagBool / kTagString / kTagEnum ...  by value
//
// Thread-safety: a Call belongs to its stack frame. Lifetime: the tensors belong to the caller's
// stack and outlive it.

#ifndef NEUROND_CLIENT_TORCH_CSRC_CALL_H_
#define NEUROND_CLIENT_TORCH_CSRC_CALL_H_

#include <ATen/core/Generator.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "client/torch/csrc/buffer.h"
#include "client/torch/csrc/op_info.h"

namespace neurond::shim {

struct TensorArg {
  const at::Tensor* tensor;
  int32_t slot;  // index into slots; -1: no elements
  bool whole;    // offset 0 and the View spans its Buffer: no offset word
};

struct HostScalar {
  c10::ScalarType dtype;
  bool wrapped;
  int64_t word;  // a double's bits, an int64, a bool

  c10::Scalar Value() const;
};

struct Call {
  c10::SmallVector<uint64_t, 96> key;
  c10::SmallVector<TensorArg, 8> tensors;
  c10::SmallVector<Buffer*, 8> slots;
  c10::SmallVector<int64_t, 8> offsets;
  c10::SmallVector<HostScalar, 4> scalars;
  std::unique_ptr<std::unordered_map<const Buffer*, int32_t>> slot_index;  // only with many slots
  std::optional<at::Generator> generator;
  int device = -1;
  bool unknown_dtype = false;  // a tensor that Programs cannot hold
  bool float64 = false;

  uint64_t Hash() const;
  // The second level of the key: the values of scalars that a trace depended on.
  void AddStaticValues(const std::vector<int32_t>& statics);
};

// Takes `stack`'s last arguments apart. May replace CPU tensors on the stack by uploaded ones where
// torch allows them beside device tensors. Throws torch's words for mixed devices.
void TakeApart(const OpInfo& info, torch::jit::Stack* stack, uint64_t graph, Call* call);

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_CALL_H_
