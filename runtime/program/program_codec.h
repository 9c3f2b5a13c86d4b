// Lowered Programs as bytes, for the disk: a compact form of our own, read only by the build that
// wrote it.
//
// Layout: every field of Program in the order of its declaration; numbers as 8 little-endian bytes,
// strings and lists behind their length. Whatever does not fit that (short, long, an index out of
// range) is refused: the file was checked before, but a Session trusts a Program's indices.
//
// Thread-safety: pure functions.

#ifndef NEUROND_RUNTIME_PROGRAM_PROGRAM_CODEC_H_
#define NEUROND_RUNTIME_PROGRAM_PROGRAM_CODEC_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "runtime/program/program.h"

namespace neurond {

// Appends numbers and strings; the counterpart of ByteReader.
class ByteWriter {
 public:
  void Number(int64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(std::string_view text) {
    Number(static_cast<int64_t>(text.size()));
    bytes_.append(text);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what ByteWriter wrote. Past the end everything is 0 and ok() is false.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  int64_t Number();
  std::string_view Text();
  // A list's length; each element takes at least 8 bytes, so a forged one cannot make us allocate.
  int64_t Count();
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

void EncodeProgram(const Program& program, ByteWriter& writer);
std::optional<Program> DecodeProgram(ByteReader& reader);

// INVALID_ARGUMENT if an index of the Program is out of range: what a Session relies on.
absl::Status CheckProgram(const Program& program);

}  // namespace neurond

#endif  // NEUROND_RUNTIME_PROGRAM_PROGRAM_CODEC_H_
