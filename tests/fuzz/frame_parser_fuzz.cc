// The socket's byte stream, cut at places that the input chooses, and every frame's decoder.
#include <cstdint>
#include <string>

#include "server/wire/frame_parser.h"

namespace {

uint64_t sink;

void Touch(std::string_view text) {
  for (char c : text) sink += static_cast<unsigned char>(c);
}

void Decode(const neurond::wire::FrameParser::Frame& frame) {
  using namespace neurond::wire;  // NOLINT: the target is this namespace
  Touch(frame.payload);
  if (auto hello = DecodeHello(frame.payload); hello.ok()) {
    Touch(hello->build_id);
    Touch(hello->settings);
  }
  if (auto key = DecodeLookup(frame.payload); key.ok()) Touch(*key);
  if (auto define = DecodeDefine(frame.payload); define.ok()) {
    Touch(define->key);
    Touch(define->meta);
    Touch(define->program);
  }
  (void)DecodeGrant(frame.payload);
  (void)DecodeTakeError(frame.payload);
  (void)DecodeEventTime(frame.payload);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  neurond::wire::FrameParser parser;
  while (!bytes.empty()) {
    // As recv() would: never more than was wanted, sometimes less.
    size_t take = std::min(parser.Wanted(), bytes.size());
    if (static_cast<unsigned char>(bytes.front()) % 4 == 0) take = (take + 1) / 2;
    if (!parser.Append(bytes.substr(0, take)).ok()) break;
    bytes.remove_prefix(take);
    if (!parser.HasFrame()) continue;
    Decode(parser.Front());
    parser.Pop();
  }
  return 0;
}
