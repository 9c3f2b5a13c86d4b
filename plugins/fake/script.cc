#include "plugins/fake/script.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "runtime/base/limits.h"
#include "runtime/base/text.h"

namespace neurond::fake {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

std::optional<FaultPoint> PointNamed(std::string_view word) {
  constexpr std::pair<std::string_view, FaultPoint> kPoints[] = {
      {"execute", FaultPoint::kExecute},   {"compile", FaultPoint::kCompile},
      {"load", FaultPoint::kLoad},         {"upload", FaultPoint::kUpload},
      {"download", FaultPoint::kDownload}, {"copy", FaultPoint::kCopy},
  };
  for (const auto& [name, point] : kPoints) {
    if (name == word) return point;
  }
  return std::nullopt;
}

bool Matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty() || pattern.back() != '*') return pattern == name;
  pattern.remove_suffix(1);
  return name.substr(0, pattern.size()) == pattern;
}

std::optional<int64_t> ToInt(std::string_view word) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 0) return std::nullopt;
  return value;
}

// The next blank-separated word of `line`, which loses it.
std::string_view TakeWord(std::string_view& line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) {
    line = {};
    return {};
  }
  const size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

std::string Rest(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return "";
  return std::string(line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1));
}

absl::Status ParseAction(std::string_view action, std::string_view line, Fault& fault) {
  if (action == "slow") {
    const auto ms = ToInt(Rest(line));
    if (!ms || *ms > kScriptSlowMsMax) return absl::InvalidArgumentError("slow needs milliseconds");
    fault.slow_ms = static_cast<int>(*ms);
    return absl::OkStatus();
  }
  if (action == "crash") {
    fault.crash = true;
    return absl::OkStatus();
  }
  const bool oom = action == "oom" || action == "oom-late";
  if (!oom && action != "fail" && action != "fail-late") {
    return absl::InvalidArgumentError(Cat("unknown action '", action, "'"));
  }
  fault.late = action.ends_with("-late");
  fault.error.code = oom ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal;
  fault.error.kind = oom ? ErrorKind::kOutOfMemory : ErrorKind::kRuntime;
  fault.error.message = Rest(line);
  if (fault.error.message.empty()) {
    fault.error.message = oom ? "out of memory (scripted)" : "scripted failure";
  }
  return absl::OkStatus();
}

// Changes with every way of changing a file.
std::string FileState(const std::string& file) {
  struct stat info;
  if (stat(file.c_str(), &info) != 0) return "none";
  return Cat(info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec,
             " ", info.st_ctim.tv_sec, ".", info.st_ctim.tv_nsec);
}

}  // namespace

absl::Status Script::ParseLine(std::string_view line, Rules& rules) {
  const std::string_view first = TakeWord(line);
  if (first.empty()) return absl::OkStatus();
  if (first == "memory") {
    const auto bytes = ToInt(Rest(line));
    if (!bytes) return absl::InvalidArgumentError("memory needs a number of bytes");
    rules.memory_bytes = *bytes;
    return absl::OkStatus();
  }
  Rule rule;
  const auto point = PointNamed(first);
  if (!point) return absl::InvalidArgumentError(Cat("unknown point '", first, "'"));
  rule.point = *point;
  rule.name = std::string(TakeWord(line));
  std::string_view which = TakeWord(line);
  const bool open = !which.empty() && which.back() == '+';
  if (open) which.remove_suffix(1);
  if (which == "*") {
    rule.to = kForever;
  } else if (const auto n = ToInt(which); n && *n > 0) {
    rule.from = *n;
    rule.to = open ? kForever : *n;
  } else {
    return absl::InvalidArgumentError(
        Cat("'", which, "' is not the number of a call, counted from 1"));
  }
  const std::string_view action = TakeWord(line);
  if (absl::Status status = ParseAction(action, line, rule.fault); !status.ok()) return status;
  rules.list.push_back(std::move(rule));
  return absl::OkStatus();
}

absl::StatusOr<Script::Rules> Script::Parse(std::string_view text) {
  Rules rules;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find_first_of(";\n"), text.size());
    std::string_view line = text.substr(0, end);
    line = line.substr(0, line.find('#'));
    if (absl::Status status = ParseLine(line, rules); !status.ok()) {
      return absl::InvalidArgumentError(
          Cat("line ", number, " of the fault script: ", std::string(status.message())));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return rules;
}

absl::Status Script::Check(std::string_view text) { return Parse(text).status(); }

Script::Script(const std::string& text, const std::string& file) : file_(file) {
  if (absl::StatusOr<Rules> rules = Parse(text); rules.ok()) fixed_ = *std::move(rules);
}

void Script::ReadFileIfChanged() {
  if (file_.empty()) return;
  std::string state = FileState(file_);
  if (state == file_state_) return;
  file_state_ = std::move(state);
  std::error_code missing;
  if (std::filesystem::exists(file_, missing) &&
      !std::filesystem::is_regular_file(file_, missing)) {
    spdlog::error("{} is not a file: no faults come from it", file_);
    read_ = {};
    return;
  }
  std::ifstream in(file_);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  absl::StatusOr<Rules> rules = Parse(text.str());
  if (rules.ok()) {
    read_ = *std::move(rules);
  } else {
    spdlog::error("{}: {}", file_, std::string(rules.status().message()));
  }
}

Fault Script::Next(FaultPoint point, std::string_view name) {
  std::lock_guard<std::mutex> lock(mutex_);
  ReadFileIfChanged();
  Fault fault;
  for (Rules* rules : {&fixed_, &read_}) {
    for (Rule& rule : rules->list) {
      if (rule.point != point || !Matches(rule.name, name)) continue;
      ++rule.matches;
      if (rule.matches < rule.from || rule.matches > rule.to) continue;
      fault.slow_ms += rule.fault.slow_ms;
      fault.crash |= rule.fault.crash;
      if (fault.error.ok() && !rule.fault.error.ok()) {
        fault.error = rule.fault.error;
        fault.late = rule.fault.late;
      }
    }
  }
  return fault;
}

int64_t Script::memory_bytes() {
  std::lock_guard<std::mutex> lock(mutex_);
  ReadFileIfChanged();
  return read_.memory_bytes > 0 ? read_.memory_bytes : fixed_.memory_bytes;
}

}  // namespace neurond::fake
