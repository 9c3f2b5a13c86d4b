// Number: one element of any type, wide enough to compute with.
//
// Integers and bools are in `i` (unsigned 64-bit values by their bits), floats in `re`, complex
// numbers in `re` and `im`. Results of f32, f16 and bf16 operations are computed in double and
// rounded once, which for + - * / and sqrt of f32 is the correctly rounded result.
//
// Thread-safety: pure functions.

#ifndef NEUROND_PLUGINS_FAKE_NUMBER_H_
#define NEUROND_PLUGINS_FAKE_NUMBER_H_

#include <cstdint>

#include "runtime/base/dtype.h"

namespace neurond::fake {

struct Number {
  int64_t i = 0;
  double re = 0;
  double im = 0;
};

Number LoadNumber(DType dtype, const char* from);
// Wraps integers, rounds floats to nearest, ties to even.
void StoreNumber(DType dtype, const Number& number, char* to);
// StableHLO's convert: float to integer truncates and saturates, anything to bool is "not zero",
// complex to real drops the imaginary part.
Number ConvertNumber(const Number& number, DType from, DType to);

}  // namespace neurond::fake

#endif  // NEUROND_PLUGINS_FAKE_NUMBER_H_
