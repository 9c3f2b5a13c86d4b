#include "runtime/base/cpu_features.h"

#include <fstream>

namespace neurond {

std::string CpuFeatures() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line;
  while (std::getline(cpuinfo, line)) {
    if (line.starts_with("flags") || line.starts_with("Features")) {
      const size_t colon = line.find(':');
      return colon == std::string::npos ? line : line.substr(colon + 1);
    }
  }
  return "";
}

}  // namespace neurond
