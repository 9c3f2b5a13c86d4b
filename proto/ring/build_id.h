// The GNU build id of an ELF file: how a client and a daemon tell whether they come from one build.
//
// Header-only and free of dependencies: the torch shim, client/ring and the daemon share it.
// Thread-safety: pure function over a file.

#ifndef NEUROND_PROTO_RING_BUILD_ID_H_
#define NEUROND_PROTO_RING_BUILD_ID_H_

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace neurond::ring {

// Lower-case hex; empty if the file cannot be read or carries no build id.
inline std::string ElfBuildId(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr elf;
  if (!file.read(reinterpret_cast<char*>(&elf), sizeof(elf))) return "";
  if (std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64) {
    return "";
  }
  for (int i = 0; i < elf.e_phnum; ++i) {
    Elf64_Phdr segment;
    file.seekg(static_cast<std::streamoff>(elf.e_phoff + uint64_t{elf.e_phentsize} * i));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof(segment))) return "";
    if (segment.p_type != PT_NOTE || segment.p_filesz > (1u << 20)) continue;
    std::vector<char> notes(segment.p_filesz);
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    if (!file.read(notes.data(), static_cast<std::streamsize>(notes.size()))) return "";
    const auto padded = [](uint64_t n) { return (n + 3) & ~uint64_t{3}; };
    for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
      Elf64_Nhdr note;
      std::memcpy(&note, notes.data() + at, sizeof(note));
      const uint64_t name = at + sizeof(note);
      const uint64_t id = name + padded(note.n_namesz);
      const uint64_t end = id + padded(note.n_descsz);
      if (end > notes.size()) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          std::memcmp(notes.data() + name, "GNU", 4) == 0) {
        static constexpr char kHex[] = "0123456789abcdef";
        std::string text;
        for (uint64_t k = id; k < id + note.n_descsz; ++k) {
          const auto byte = static_cast<unsigned char>(notes[k]);
          text += kHex[byte >> 4];
          text += kHex[byte & 15];
        }
        return text;
      }
      at = end;
    }
  }
  return "";
}

}  // namespace neurond::ring

#endif  // NEUROND_PROTO_RING_BUILD_ID_H_
