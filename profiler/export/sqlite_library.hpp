// SPDX-License-Identifier: MIT
// sqlite_library: a database of SQLite, which is filled table by table and then given out as the bytes of its file. It
// lies in a nameless file in TMPDIR (or /tmp) meanwhile, so its size costs no memory of this process and nothing stays
// behind. The library is loaded when the first database is made, so that nothing else needs it. Not thread-safe. Errors
// are profile_error: the library is missing or too old, or there is no memory or no room in that folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

struct sqlite3;
struct sqlite3_stmt;

namespace tarn::profiler {

class sqlite_database {
 public:
  sqlite_database();
  ~sqlite_database();
  sqlite_database(const sqlite_database&) = delete;
  sqlite_database& operator=(const sqlite_database&) = delete;

  void run(const std::string& statement);
  // The bytes of the file, in pieces. Outside a transaction.
  void write(const std::function<void(std::string_view)>& take) const;

 private:
  friend class sqlite_table;
  [[noreturn]] void fail() const;
  [[noreturn]] static void refuse(const std::string& reason);
  void end() noexcept;

  int file_ = -1;
  sqlite3* handle_ = nullptr;
};

// A table that is made and filled. Values are bound, so a name can be any text; `columns` are of the code:
// "id INTEGER PRIMARY KEY, name TEXT".
class sqlite_table {
 public:
  sqlite_table(sqlite_database& database, const std::string& name, const std::string& columns);
  ~sqlite_table();
  sqlite_table(const sqlite_table&) = delete;
  sqlite_table& operator=(const sqlite_table&) = delete;

  // A row, a value for each column; an empty optional is NULL.
  template <class... Values>
  void add(const Values&... values) {
    (put(values), ...);
    end_row();
  }
  // The same, value by value.
  template <class Value>
  void put(const Value& value) {
    if constexpr (std::is_integral_v<Value>) {
      put_whole(static_cast<std::int64_t>(value));
    } else if constexpr (std::is_floating_point_v<Value>) {
      put_real(value);
    } else if constexpr (std::is_convertible_v<Value, std::string_view>) {
      put_text(value);
    } else {
      value ? put(*value) : put_null();
    }
  }
  void end_row();

 private:
  void put_whole(std::int64_t value);
  void put_real(double value);
  void put_text(std::string_view value);
  void put_null() { ++column_; }

  sqlite_database& database_;
  sqlite3_stmt* insert_ = nullptr;
  int column_ = 0;  // that was put last, from 1
};

}  // namespace tarn::profiler
