// What of this machine's CPU a compiled executable may depend on.
//
// Thread-safety: pure function; reads /proc/cpuinfo each time.

#ifndef NEUROND_RUNTIME_BASE_CPU_FEATURES_H_
#define NEUROND_RUNTIME_BASE_CPU_FEATURES_H_

#include <string>

namespace neurond {

// The feature flags that the kernel reports for the first CPU ("flags" on x86, "Features" on ARM);
// empty if it reports none.
std::string CpuFeatures();

}  // namespace neurond

#endif  // NEUROND_RUNTIME_BASE_CPU_FEATURES_H_
