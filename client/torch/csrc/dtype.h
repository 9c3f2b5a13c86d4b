// Element types: torch's ScalarType <-> the ring's DType.
//
// Thread-safety: pure functions. A ScalarType that the daemon does not know (float8, quantized ...)
// maps to kInvalid; its storage is untyped bytes, and ops on it run on the CPU.

#ifndef NEUROND_CLIENT_TORCH_CSRC_DTYPE_H_
#define NEUROND_CLIENT_TORCH_CSRC_DTYPE_H_

#include <c10/core/ScalarType.h>

#include "proto/ring/ring_abi.h"

namespace neurond::shim {

inline ring::DType ToRing(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Bool:
      return ring::DType::kBool;
    case c10::ScalarType::Byte:
      return ring::DType::kU8;
    case c10::ScalarType::Char:
      return ring::DType::kI8;
    case c10::ScalarType::Short:
      return ring::DType::kI16;
    case c10::ScalarType::UInt16:
      return ring::DType::kU16;
    case c10::ScalarType::Int:
      return ring::DType::kI32;
    case c10::ScalarType::UInt32:
      return ring::DType::kU32;
    case c10::ScalarType::Long:
      return ring::DType::kI64;
    case c10::ScalarType::UInt64:
      return ring::DType::kU64;
    case c10::ScalarType::Half:
      return ring::DType::kF16;
    case c10::ScalarType::BFloat16:
      return ring::DType::kBF16;
    case c10::ScalarType::Float:
      return ring::DType::kF32;
    case c10::ScalarType::Double:
      return ring::DType::kF64;
    case c10::ScalarType::ComplexFloat:
      return ring::DType::kC64;
    case c10::ScalarType::ComplexDouble:
      return ring::DType::kC128;
    default:
      return ring::DType::kInvalid;
  }
}

inline c10::ScalarType ToTorch(ring::DType type) {
  static constexpr c10::ScalarType kTypes[] = {
      c10::ScalarType::Undefined,    c10::ScalarType::Bool,   c10::ScalarType::Byte,
      c10::ScalarType::Char,         c10::ScalarType::Short,  c10::ScalarType::UInt16,
      c10::ScalarType::Int,          c10::ScalarType::UInt32, c10::ScalarType::Long,
      c10::ScalarType::UInt64,       c10::ScalarType::Half,   c10::ScalarType::BFloat16,
      c10::ScalarType::Float,        c10::ScalarType::Double, c10::ScalarType::ComplexFloat,
      c10::ScalarType::ComplexDouble};
  const auto index = static_cast<size_t>(type);
  return index < std::size(kTypes) ? kTypes[index] : c10::ScalarType::Undefined;
}

}  // namespace neurond::shim

#endif  // NEUROND_CLIENT_TORCH_CSRC_DTYPE_H_
