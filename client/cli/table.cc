#include "client/cli/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace neurond::cli {
namespace {

// Characters, not bytes, of a UTF-8 text.
size_t Width(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

std::string Padded(const std::string& text, size_t width, Align align) {
  const std::string blanks(width - std::min(width, Width(text)), ' ');
  return align == Align::kLeft ? text + blanks : blanks + text;
}

template <typename... Args>
std::string Format(const char* format, Args... args) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), format, args...);
  return text.data();
}

}  // namespace

void Table::Add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) {
    std::replace_if(
        cell.begin(), cell.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  }
  rows_.push_back(std::move(cells));
}

void Table::Print(std::ostream& out, bool colour) const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    widths.push_back(Width(columns_[i].title));
    for (const auto& row : rows_) widths[i] = std::max(widths[i], Width(row[i]));
  }
  const auto line = [&](const auto& cell) {
    std::string text;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) text += "  ";
      text += Padded(cell(i), widths[i], columns_[i].align);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  const std::string titles = line([&](size_t i) { return columns_[i].title; });
  out << (colour ? "\033[1m" + titles + "\033[0m" : titles) << "\n";
  for (const auto& row : rows_) out << line([&](size_t i) { return row[i]; }) << "\n";
}

std::string Bytes(int64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const bool whole = unit == 0 || std::abs(value) >= 10;
  return Format(whole ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
}

std::string Count(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string Duration(double seconds) {
  if (seconds < 1) return Format("%.0f ms", seconds * 1000);
  if (seconds < 60) return Format("%.1f s", seconds);
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 3600) return Format("%d min %d s", int(whole / 60), int(whole % 60));
  if (whole < 86400) return Format("%d h %d min", int(whole / 3600), int(whole % 3600 / 60));
  return Format("%d d %d h", int(whole / 86400), int(whole % 86400 / 3600));
}

}  // namespace neurond::cli
