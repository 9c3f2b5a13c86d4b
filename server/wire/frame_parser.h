// Frames: the socket's byte stream -> one frame at a time -> plain structs whose texts point into
// the frame.
//
// The bytes are hostile: lengths are checked before anything is allocated for them, and memory
// grows with what has arrived, not with what was announced.
//
// Thread-safety: FrameParser: one thread. The decoders are pure functions.

#ifndef NEUROND_SERVER_WIRE_FRAME_PARSER_H_
#define NEUROND_SERVER_WIRE_FRAME_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/ring/ring_abi.h"

namespace neurond::wire {

class FrameParser {
 public:
  struct Frame {
    ring::FrameHeader header{};
    std::string_view payload;  // valid until Pop
  };

  // Takes bytes as they arrive. INVALID_ARGUMENT: the stream is no stream of frames; the parser is
  // useless then.
  absl::Status Append(std::string_view bytes);
  // Whether a whole frame is here.
  bool HasFrame() const { return complete_; }
  Frame Front() const;
  void Pop();
  // How many bytes to read next at most; 0 while a whole frame waits.
  size_t Wanted() const;

 private:
  absl::Status Advance();

  std::string buffer_;
  ring::FrameHeader header_{};
  bool have_header_ = false;
  bool complete_ = false;
};

struct Hello {
  ring::HelloFrame fixed;
  std::string_view build_id;
  std::string_view settings;
};
absl::StatusOr<Hello> DecodeHello(std::string_view payload);

absl::StatusOr<std::string_view> DecodeLookup(std::string_view payload);  // the key

struct Define {
  std::string_view key, meta, program;
};
absl::StatusOr<Define> DecodeDefine(std::string_view payload);

absl::StatusOr<ring::GrantFrame> DecodeGrant(std::string_view payload);
absl::StatusOr<ring::TakeErrorFrame> DecodeTakeError(std::string_view payload);
absl::StatusOr<ring::EventTimeFrame> DecodeEventTime(std::string_view payload);

}  // namespace neurond::wire

#endif  // NEUROND_SERVER_WIRE_FRAME_PARSER_H_
