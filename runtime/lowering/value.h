// Value: one SSA value of the module being written, or a number that no line defines yet.
//
// Thread-safety: plain values.

#ifndef NEUROND_RUNTIME_LOWERING_VALUE_H_
#define NEUROND_RUNTIME_LOWERING_VALUE_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/limits.h"

namespace neurond::lowering {

using Sizes = std::vector<int64_t>;

// A literal of the graph: a Python int, float or bool.
using Number = std::variant<std::monostate, int64_t, double>;

struct Value {
  std::string name;  // "%12"; empty: `number`, which Builder::Ref turns into a constant
  DType dtype = DType::kInvalid;
  Sizes sizes;
  bool wrapped = false;  // a Python number: yields to tensors in type promotion
  Number number = {};

  int rank() const { return static_cast<int>(sizes.size()); }
  // 1 for a dimension that does not exist, so that a wrong program cannot read out of bounds.
  int64_t dim(int d) const { return d >= 0 && d < rank() ? sizes[d] : 1; }
  // At most kElementsMax + 1, which stands for every larger number.
  int64_t Elements() const {
    int64_t n = 1;
    for (int64_t s : sizes) {
      if (s <= 0) return 0;
      n = s > kElementsMax / n ? kElementsMax + 1 : n * s;
    }
    return n;
  }
};
using Values = std::vector<Value>;

// The dtype in which PyTorch computes elementwise ops and accumulates: float32 for float16 and
// bfloat16.
inline DType OpMath(DType t) { return t == DType::kF16 || t == DType::kBF16 ? DType::kF32 : t; }

// c64 -> f32, c128 -> f64, else unchanged.
inline DType RealOf(DType t) {
  if (t == DType::kC64) return DType::kF32;
  return t == DType::kC128 ? DType::kF64 : t;
}

}  // namespace neurond::lowering

#endif  // NEUROND_RUNTIME_LOWERING_VALUE_H_
