// RecordApplier: decoded records -> calls of the Session. Resolves staging ranges to memory and
// kLarge to the record it stands for.
//
// Thread-safety: the session thread. Errors: INVALID_ARGUMENT and the like mean the client broke
// the contract; the session ends.

#ifndef NEUROND_SERVER_RING_RECORD_APPLIER_H_
#define NEUROND_SERVER_RING_RECORD_APPLIER_H_

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "runtime/session/session.h"
#include "server/wire/ring_decoder.h"
#include "server/wire/ring_reader.h"

namespace neurond::ring {

class RecordApplier {
 public:
  RecordApplier(Session& session, wire::RingReader& reader, std::byte* staging)
      : session_(session), reader_(reader), staging_(staging) {}

  // `bytes` as RingReader::Next gave them.
  absl::Status Apply(std::span<const std::byte> bytes);

 private:
  absl::Status On(const AllocRecord& r);
  absl::Status On(const FreeRecord& r);
  absl::Status On(const wire::FreeMany& r);
  absl::Status On(const wire::Execute& r);
  absl::Status On(const WriteRecord& r);
  absl::Status On(const ReadRecord& r);
  absl::Status On(const CopyRecord& r);
  absl::Status On(const EventRecord& r);
  absl::Status On(const WaitRecord& r);
  absl::Status On(const LargeRecord& r);

  Session& session_;
  wire::RingReader& reader_;
  std::byte* const staging_;
};

}  // namespace neurond::ring

#endif  // NEUROND_SERVER_RING_RECORD_APPLIER_H_
