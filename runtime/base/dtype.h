// Element types. The numbers are those of the ring ABI and of neurond.v1.DType.
//
// Thread-safety: values and pure functions.

#ifndef NEUROND_RUNTIME_BASE_DTYPE_H_
#define NEUROND_RUNTIME_BASE_DTYPE_H_

#include <cstdint>
#include <string_view>

namespace neurond {

enum class DType : uint8_t {
  kInvalid = 0,
  kBool = 1,
  kU8 = 2,
  kI8 = 3,
  kI16 = 4,
  kU16 = 5,
  kI32 = 6,
  kU32 = 7,
  kI64 = 8,
  kU64 = 9,
  kF16 = 10,
  kBF16 = 11,
  kF32 = 12,
  kF64 = 13,
  kC64 = 14,
  kC128 = 15,
};
inline constexpr int kDTypeCount = 16;

inline bool IsValid(DType t) { return t > DType::kInvalid && static_cast<int>(t) < kDTypeCount; }
inline bool IsFloat(DType t) { return t >= DType::kF16 && t <= DType::kF64; }
inline bool IsComplex(DType t) { return t == DType::kC64 || t == DType::kC128; }
inline bool IsInteger(DType t) { return t >= DType::kU8 && t <= DType::kU64; }
inline bool IsUnsigned(DType t) {
  return t == DType::kBool || t == DType::kU8 || t == DType::kU16 || t == DType::kU32 ||
         t == DType::kU64;
}

// Bytes per element; 0 for kInvalid.
int DTypeBytes(DType t);

// StableHLO's element type: "f32", "bf16", "i1", "ui8", "complex<f32>" ...
std::string_view HloName(DType t);

// PyTorch's name, for messages: "float32", "bool" ...
std::string_view TorchName(DType t);

}  // namespace neurond

#endif  // NEUROND_RUNTIME_BASE_DTYPE_H_
