#include "server/wire/frame_parser.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/text.h"

namespace neurond::wire {
namespace {

// Read sizes: small until a frame proves to be large, then in steps.
constexpr size_t kReadStep = 256 << 10;

template <class T>
absl::Status TakeFixed(std::string_view& payload, std::string_view name, T* fixed) {
  if (payload.size() < sizeof(T)) {
    return absl::InvalidArgumentError(
        Cat(name, " frame: expected at least ", sizeof(T), " bytes, got ", payload.size()));
  }
  std::memcpy(fixed, payload.data(), sizeof(T));
  payload.remove_prefix(sizeof(T));
  return absl::OkStatus();
}

absl::Status TakeText(std::string_view& payload, std::string_view name, uint64_t bytes,
                      std::string_view* text) {
  if (bytes > payload.size()) {
    return absl::InvalidArgumentError(
        Cat(name, " frame: a part of ", bytes, " bytes, but ", payload.size(), " are left"));
  }
  *text = payload.substr(0, bytes);
  payload.remove_prefix(bytes);
  return absl::OkStatus();
}

absl::Status End(std::string_view payload, std::string_view name) {
  if (payload.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat(name, " frame: ", payload.size(), " bytes too many"));
}

template <class T>
absl::StatusOr<T> DecodeFixed(std::string_view payload, std::string_view name) {
  T fixed{};
  if (absl::Status s = TakeFixed(payload, name, &fixed); !s.ok()) return s;
  if (absl::Status s = End(payload, name); !s.ok()) return s;
  return fixed;
}

}  // namespace

absl::Status FrameParser::Append(std::string_view bytes) {
  buffer_.append(bytes);
  return Advance();
}

absl::Status FrameParser::Advance() {
  if (!have_header_) {
    if (buffer_.size() < sizeof(header_)) return absl::OkStatus();
    std::memcpy(&header_, buffer_.data(), sizeof(header_));
    if (header_.magic != ring::kMagic) {
      return absl::InvalidArgumentError(Cat("not a frame: magic ", header_.magic));
    }
    if (header_.bytes > ring::kFrameBytesMax - sizeof(header_)) {
      return absl::InvalidArgumentError(
          Cat("a frame of ", header_.bytes, " bytes; the largest is ", ring::kFrameBytesMax));
    }
    have_header_ = true;
  }
  complete_ = buffer_.size() >= sizeof(header_) + header_.bytes;
  return absl::OkStatus();
}

FrameParser::Frame FrameParser::Front() const {
  return {header_, std::string_view(buffer_).substr(sizeof(header_), header_.bytes)};
}

void FrameParser::Pop() {
  const bool large = buffer_.size() > 2 * kReadStep;
  buffer_.erase(0, sizeof(header_) + header_.bytes);
  if (large) buffer_.shrink_to_fit();
  have_header_ = complete_ = false;
}

size_t FrameParser::Wanted() const {
  if (complete_) return 0;
  const size_t whole = sizeof(header_) + (have_header_ ? header_.bytes : 0);
  return std::min(whole - buffer_.size(), kReadStep);
}

absl::StatusOr<Hello> DecodeHello(std::string_view payload) {
  Hello hello{};
  if (absl::Status s = TakeFixed(payload, "Hello", &hello.fixed); !s.ok()) return s;
  absl::Status s = TakeText(payload, "Hello", hello.fixed.build_id_bytes, &hello.build_id);
  if (s.ok()) s = TakeText(payload, "Hello", hello.fixed.settings_bytes, &hello.settings);
  if (s.ok()) s = End(payload, "Hello");
  if (!s.ok()) return s;
  return hello;
}

absl::StatusOr<std::string_view> DecodeLookup(std::string_view payload) {
  ring::LookupFrame fixed;
  if (absl::Status s = TakeFixed(payload, "Lookup", &fixed); !s.ok()) return s;
  std::string_view key;
  absl::Status s = TakeText(payload, "Lookup", fixed.key_bytes, &key);
  if (s.ok()) s = End(payload, "Lookup");
  if (!s.ok()) return s;
  return key;
}

absl::StatusOr<Define> DecodeDefine(std::string_view payload) {
  ring::DefineFrame fixed;
  if (absl::Status s = TakeFixed(payload, "Define", &fixed); !s.ok()) return s;
  Define define;
  absl::Status s = TakeText(payload, "Define", fixed.key_bytes, &define.key);
  if (s.ok()) s = TakeText(payload, "Define", fixed.meta_bytes, &define.meta);
  if (s.ok()) s = TakeText(payload, "Define", fixed.program_bytes, &define.program);
  if (s.ok()) s = End(payload, "Define");
  if (!s.ok()) return s;
  return define;
}

absl::StatusOr<ring::GrantFrame> DecodeGrant(std::string_view payload) {
  return DecodeFixed<ring::GrantFrame>(payload, "Grant");
}

absl::StatusOr<ring::TakeErrorFrame> DecodeTakeError(std::string_view payload) {
  return DecodeFixed<ring::TakeErrorFrame>(payload, "TakeError");
}

absl::StatusOr<ring::EventTimeFrame> DecodeEventTime(std::string_view payload) {
  return DecodeFixed<ring::EventTimeFrame>(payload, "EventTime");
}

}  // namespace neurond::wire
