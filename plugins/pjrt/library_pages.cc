#include "plugins/pjrt/library_pages.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace neurond::pjrt {
namespace {

const ElfW(Phdr) * SegmentOf(const dl_phdr_info& info, uintptr_t address) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    const uintptr_t begin = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin && address - begin < segment.p_memsz) {
      return &segment;
    }
  }
  return nullptr;
}

bool HasCodeRelocations(const dl_phdr_info& info) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + segment.p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_TEXTREL) return true;
      if (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0) return true;
    }
  }
  return false;
}

int Release(dl_phdr_info* info, size_t /*size*/, void* address) {
  if (SegmentOf(*info, reinterpret_cast<uintptr_t>(address)) == nullptr) return 0;
  if (HasCodeRelocations(*info)) return 1;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    // Whole pages within the segment: a page that it shares may be another segment's.
    const uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    const uintptr_t begin = (start + page - 1) / page * page;
    const uintptr_t end = (start + segment.p_memsz) / page * page;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  return 1;
}

}  // namespace

void ReleaseReadOnlyPages(const void* address) {
  dl_iterate_phdr(Release, const_cast<void*>(address));
}

}  // namespace neurond::pjrt
