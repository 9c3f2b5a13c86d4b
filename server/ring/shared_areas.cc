#include "server/ring/shared_areas.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "runtime/base/text.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace neurond::ring {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

absl::Status MakeArea(const char* name, uint64_t bytes, int seals, Fd* fd, void** address) {
  fd->Reset(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd->valid() || ftruncate(fd->get(), static_cast<off_t>(bytes)) != 0) {
    return absl::ErrnoToStatus(errno, Cat("cannot make ", name, " of ", bytes, " bytes"));
  }
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0);
  if (mapped == MAP_FAILED) return absl::ErrnoToStatus(errno, Cat("cannot map ", name));
  *address = mapped;
  if (fcntl(fd->get(), F_ADD_SEALS, seals) != 0) {
    return absl::ErrnoToStatus(errno, Cat("cannot seal ", name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedAreas>> SharedAreas::Make() {
  std::unique_ptr<SharedAreas> areas(new SharedAreas);
  absl::Status status = MakeArea("neurond-ring", kRingDataOffset + kRingBytes, kSizeSeals,
                                 &areas->ring_fd_, &areas->ring_);
  if (status.ok()) {
    status = MakeArea("neurond-staging", kStagingBytes, kSizeSeals, &areas->staging_fd_,
                      &areas->staging_);
  }
  if (status.ok()) {
    status = MakeArea("neurond-progress", kProgressBytes, kSizeSeals | F_SEAL_FUTURE_WRITE,
                      &areas->progress_fd_, &areas->progress_);
  }
  if (!status.ok()) return status;
  RingHeader& header = areas->ring();
  header.magic = kMagic;
  header.abi = kAbiMax;
  header.data_bytes = kRingBytes;
  return areas;
}

SharedAreas::~SharedAreas() {
  if (ring_ != nullptr) munmap(ring_, kRingDataOffset + kRingBytes);
  if (staging_ != nullptr) munmap(staging_, kStagingBytes);
  if (progress_ != nullptr) munmap(progress_, kProgressBytes);
}

void SharedAreas::CloseFds() {
  ring_fd_.Reset();
  staging_fd_.Reset();
  progress_fd_.Reset();
}

}  // namespace neurond::ring
