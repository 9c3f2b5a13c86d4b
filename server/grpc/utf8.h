// Texts from clients as protobuf strings: protobuf refuses to parse a string field that is not
// UTF-8, so one bad tag would make a whole list unreadable.
//
// Thread-safety: a pure function.

#ifndef NEUROND_SERVER_GRPC_UTF8_H_
#define NEUROND_SERVER_GRPC_UTF8_H_

#include <string>
#include <string_view>

namespace neurond {

// Each byte that does not belong to a well-formed sequence becomes '?'.
std::string ValidUtf8(std::string_view text);

}  // namespace neurond

#endif  // NEUROND_SERVER_GRPC_UTF8_H_
