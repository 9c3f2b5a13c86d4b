// Tables and numbers for people.
//
// Thread-safety: values and pure functions.

#ifndef NEUROND_CLIENT_CLI_TABLE_H_
#define NEUROND_CLIENT_CLI_TABLE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace neurond::cli {

enum class Align { kLeft, kRight };

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell per column. Control characters, which may come from clients, are shown as '?'.
  void Add(std::vector<std::string> cells);
  // Two spaces between columns, titles in bold where `colour`.
  void Print(std::ostream& out, bool colour) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "0 B", "1023 B", "1.5 KiB", "12 GiB".
std::string Bytes(int64_t bytes);
// "1,234,567".
std::string Count(int64_t count);
// "850 ms", "12.3 s", "4 min 5 s", "3 h 2 min", "5 d 3 h".
std::string Duration(double seconds);

}  // namespace neurond::cli

#endif  // NEUROND_CLIENT_CLI_TABLE_H_
