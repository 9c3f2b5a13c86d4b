// Script: the faults that a fake plugin commits, one rule a line:
//
//   <point> <name> <n> <action> [text]
//
//   point   execute | compile | load | upload | download | copy
//   name    the module's name for execute, compile and load; a trailing * matches any rest; *
//   matches all. Other points have no
//           name and take * only.
//   n       which of the rule's matches: 3 the third, 2+ from the second on, * each. Counted from
//   when the rule was read, in this process
//           (a compiler worker counts for itself).
//   action  fail [message]       the call returns INTERNAL
//           fail-late [message]  the call returns ok, its completion and its results are INTERNAL
//           oom, oom-late        the same with RESOURCE_EXHAUSTED
//           slow <ms>            takes that much longer; with others, before them
//           crash                ends the process (abort)
//   memory <bytes>               memory of each device; what goes over it is RESOURCE_EXHAUSTED
//
// Lines end at a newline or ';'. # starts a comment. A script file is read again whenever it has
// changed, so that a test can steer a running daemon: write a new file beside it and rename. A
// changed file that cannot be read or has an error is reported once on the log, and the rules
// before it stay.
//
// Thread-safety: all methods, from any thread.

#ifndef NEUROND_PLUGINS_FAKE_SCRIPT_H_
#define NEUROND_PLUGINS_FAKE_SCRIPT_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/error.h"

namespace neurond::fake {

enum class FaultPoint { kExecute, kCompile, kLoad, kUpload, kDownload, kCopy };

// What happens at one call.
struct Fault {
  Error error;        // ok: none
  bool late = false;  // after the call returned
  bool crash = false;
  int slow_ms = 0;

  bool any() const { return !error.ok() || crash || slow_ms > 0; }
};

class Script {
 public:
  // Errors name the line. `file` empty: no file; a file that does not exist yet is an empty one.
  static absl::Status Check(std::string_view text);
  Script(const std::string& text, const std::string& file);

  // Counts the call and says what happens at it.
  Fault Next(FaultPoint point, std::string_view name);
  // 0: no bound.
  int64_t memory_bytes();

 private:
  struct Rule {
    FaultPoint point;
    std::string name;
    int64_t from = 1, to = 1;  // matches from..to
    Fault fault;
    int64_t matches = 0;
  };
  struct Rules {
    std::vector<Rule> list;
    int64_t memory_bytes = 0;
  };
  static absl::StatusOr<Rules> Parse(std::string_view text);
  static absl::Status ParseLine(std::string_view line, Rules& rules);
  void ReadFileIfChanged();

  std::mutex mutex_;
  const std::string file_;
  std::string file_state_;  // inode, size, times
  Rules fixed_;             // from the option
  Rules read_;              // from the file
};

}  // namespace neurond::fake

#endif  // NEUROND_PLUGINS_FAKE_SCRIPT_H_
