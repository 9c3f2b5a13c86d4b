// Limits of the lowering, each with its reason.
//
// Thread-safety: constants.

#ifndef NEUROND_RUNTIME_LOWERING_LIMITS_H_
#define NEUROND_RUNTIME_LOWERING_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace neurond::lowering {

// A Program's name stands in module text, errors and counters; clients choose it.
inline constexpr size_t kNameBytesMax = 128;
// The user's lines that an error shows; a graph of thousands of nodes names too many.
inline constexpr size_t kStackBytesMax = 4096;
// Pooling windows are unrolled, one slice a place; a larger kernel would make the text explode.
inline constexpr int64_t kPlacesMax = 1024;
// Coefficients of polygamma's reflection grow as factorials; beyond this they leave float32.
inline constexpr int64_t kPolygammaMax = 16;

}  // namespace neurond::lowering

#endif  // NEUROND_RUNTIME_LOWERING_LIMITS_H_
