#include "runtime/base/dtype.h"

namespace neurond {
namespace {

struct DTypeRow {
  int bytes;
  std::string_view hlo;
  std::string_view torch;
};

constexpr DTypeRow kRows[kDTypeCount] = {
    {0, "invalid", "invalid"},
    {1, "i1", "bool"},
    {1, "ui8", "uint8"},
    {1, "i8", "int8"},
    {2, "i16", "int16"},
    {2, "ui16", "uint16"},
    {4, "i32", "int32"},
    {4, "ui32", "uint32"},
    {8, "i64", "int64"},
    {8, "ui64", "uint64"},
    {2, "f16", "float16"},
    {2, "bf16", "bfloat16"},
    {4, "f32", "float32"},
    {8, "f64", "float64"},
    {8, "complex<f32>", "complex64"},
    {16, "complex<f64>", "complex128"},
};

const DTypeRow& Row(DType t) {
  const int i = static_cast<int>(t);
  return kRows[i < kDTypeCount ? i : 0];
}

}  // namespace

int DTypeBytes(DType t) { return Row(t).bytes; }
std::string_view HloName(DType t) { return Row(t).hlo; }
std::string_view TorchName(DType t) { return Row(t).torch; }

}  // namespace neurond
