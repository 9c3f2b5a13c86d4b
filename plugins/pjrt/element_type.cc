#include "plugins/pjrt/element_type.h"

namespace neurond::pjrt {
namespace {

struct Pair {
  DType dtype;
  PJRT_Buffer_Type type;
};
constexpr Pair kPairs[] = {
    {DType::kBool, PJRT_Buffer_Type_PRED}, {DType::kU8, PJRT_Buffer_Type_U8},
    {DType::kI8, PJRT_Buffer_Type_S8},     {DType::kI16, PJRT_Buffer_Type_S16},
    {DType::kU16, PJRT_Buffer_Type_U16},   {DType::kI32, PJRT_Buffer_Type_S32},
    {DType::kU32, PJRT_Buffer_Type_U32},   {DType::kI64, PJRT_Buffer_Type_S64},
    {DType::kU64, PJRT_Buffer_Type_U64},   {DType::kF16, PJRT_Buffer_Type_F16},
    {DType::kBF16, PJRT_Buffer_Type_BF16}, {DType::kF32, PJRT_Buffer_Type_F32},
    {DType::kF64, PJRT_Buffer_Type_F64},   {DType::kC64, PJRT_Buffer_Type_C64},
    {DType::kC128, PJRT_Buffer_Type_C128},
};

}  // namespace

PJRT_Buffer_Type ToPjrt(DType dtype) {
  for (const Pair& pair : kPairs) {
    if (pair.dtype == dtype) return pair.type;
  }
  return PJRT_Buffer_Type_INVALID;
}

DType FromPjrt(PJRT_Buffer_Type type) {
  for (const Pair& pair : kPairs) {
    if (pair.type == type) return pair.dtype;
  }
  return DType::kInvalid;
}

}  // namespace neurond::pjrt
