#include "client/ring/areas.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace neurond::client {
namespace {

// nullptr with `status` set if the file is too small or cannot be mapped.
void* MapArea(const char* name, int fd, uint64_t bytes, int protection, Status* status) {
  struct stat info;
  if (fstat(fd, &info) != 0 || static_cast<uint64_t>(info.st_size) < bytes) {
    *status = {Code::kInternal, std::string("the daemon's ") + name + " area is too small"};
    return nullptr;
  }
  void* address = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) {
    *status = {Code::kInternal,
               std::string("cannot map the daemon's ") + name + " area: " + std::strerror(errno)};
    return nullptr;
  }
  return address;
}

}  // namespace

Status Areas::Map(int ring_fd, int staging_fd, int progress_fd) {
  Status status;
  const int read_write = PROT_READ | PROT_WRITE;
  ring_ = static_cast<ring::RingHeader*>(
      MapArea("ring", ring_fd, ring::kRingDataOffset + ring::kRingBytes, read_write, &status));
  if (ring_ == nullptr) return status;
  staging_ = static_cast<std::byte*>(
      MapArea("staging", staging_fd, ring::kStagingBytes, read_write, &status));
  if (staging_ == nullptr) return status;
  progress_ = static_cast<const ring::ProgressPage*>(
      MapArea("progress", progress_fd, ring::kProgressBytes, PROT_READ, &status));
  if (progress_ == nullptr) return status;
  if (ring_->magic != ring::kMagic || ring_->data_bytes != ring::kRingBytes) {
    return {Code::kInternal, "the daemon's ring header has an unknown layout"};
  }
  return {};
}

Areas::~Areas() {
  if (ring_ != nullptr) munmap(ring_, ring::kRingDataOffset + ring::kRingBytes);
  if (staging_ != nullptr) munmap(staging_, ring::kStagingBytes);
  if (progress_ != nullptr) {
    munmap(const_cast<ring::ProgressPage*>(progress_), ring::kProgressBytes);
  }
}

}  // namespace neurond::client
