// PyTorch's type promotion (c10/core/ScalarType.h promoteTypes, ATen/native/TypeProperties.cpp
// result_type).
#include <algorithm>

#include "runtime/lowering/op.h"

namespace neurond::lowering {
namespace {

// With a complex operand the real part's precision decides.
DType ToComplex(DType t) {
  return t == DType::kF64 || t == DType::kC128 ? DType::kC128 : DType::kC64;
}

DType PromoteIntegers(DType a, DType b) {
  const bool unsigned_a = IsUnsigned(a), unsigned_b = IsUnsigned(b);
  const int bytes_a = DTypeBytes(a), bytes_b = DTypeBytes(b);
  if (unsigned_a == unsigned_b) return bytes_a >= bytes_b ? a : b;
  const DType is_signed = unsigned_a ? b : a, is_unsigned = unsigned_a ? a : b;
  if (DTypeBytes(is_signed) > DTypeBytes(is_unsigned)) return is_signed;
  switch (DTypeBytes(is_unsigned)) {
    case 1:
      return DType::kI16;
    case 2:
      return DType::kI32;
    default:
      return DType::kI64;
  }
}

// Dimensions first, then 0-dim tensors, then Python numbers; a lower class only decides the
// category.
DType Combine(DType higher, DType lower) {
  if (higher == DType::kInvalid) return lower;
  if (lower == DType::kInvalid || IsComplex(higher)) return higher;
  if (IsFloat(higher)) return IsComplex(lower) ? ToComplex(higher) : higher;
  if (higher == DType::kBool || IsFloat(lower) || IsComplex(lower)) {
    return Op::Promote(higher, lower);
  }
  return higher;
}

}  // namespace

DType Op::Promote(DType a, DType b) {
  if (a == DType::kInvalid) return b;
  if (b == DType::kInvalid || a == b) return a;
  if (IsComplex(a) || IsComplex(b)) {
    return ToComplex(a) == DType::kC128 || ToComplex(b) == DType::kC128 ? DType::kC128
                                                                        : DType::kC64;
  }
  if (IsFloat(a) && IsFloat(b)) {
    // float16 with bfloat16 is float32.
    if (DTypeBytes(a) == DTypeBytes(b)) return DType::kF32;
    return DTypeBytes(a) > DTypeBytes(b) ? a : b;
  }
  if (IsFloat(a)) return a;
  if (IsFloat(b)) return b;
  if (a == DType::kBool) return b;
  if (b == DType::kBool) return a;
  return PromoteIntegers(a, b);
}

DType Op::Promote(const Values& operands) {
  DType dim = DType::kInvalid, zero = DType::kInvalid, wrapped = DType::kInvalid;
  for (const Value& v : operands) {
    DType t = v.dtype;
    if (v.wrapped && t == DType::kF64) t = DType::kF32;  // the default dtype
    if (v.wrapped && t == DType::kC128) t = DType::kC64;
    DType& slot = v.wrapped ? wrapped : v.rank() > 0 ? dim : zero;
    slot = Promote(slot, t);
  }
  return Combine(dim, Combine(zero, wrapped));
}

Value Op::Operand(const Value& v, DType common, DType compute, const Sizes& sizes) {
  // A 0-dim operand goes to the computing dtype directly: PyTorch keeps scalars in float32 beside
  // half tensors.
  const Value promoted = v.rank() > 0 ? b.Convert(v, common) : v;
  return b.Broadcast(b.Convert(promoted, compute), sizes);
}

}  // namespace neurond::lowering
