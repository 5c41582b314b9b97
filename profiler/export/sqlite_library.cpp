// SPDX-License-Identifier: MIT
#ifdef TARN_HAS_SQLITE
#include "profiler/export/sqlite_library.hpp"

#include <dlfcn.h>
#include <sqlite3.h>

#include <memory>

#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

namespace {

constexpr const char* file_name = "libsqlite3.so.0";
constexpr const char* how_to_get = "Debian, Ubuntu: apt install libsqlite3-0";

struct library {
  decltype(&sqlite3_open_v2) open = nullptr;
  decltype(&sqlite3_close) close = nullptr;
  decltype(&sqlite3_exec) exec = nullptr;
  decltype(&sqlite3_errmsg) errmsg = nullptr;
  decltype(&sqlite3_prepare_v2) prepare = nullptr;
  decltype(&sqlite3_bind_int64) bind_int64 = nullptr;
  decltype(&sqlite3_bind_double) bind_double = nullptr;
  decltype(&sqlite3_bind_text) bind_text = nullptr;
  decltype(&sqlite3_step) step = nullptr;
  decltype(&sqlite3_reset) reset = nullptr;
  decltype(&sqlite3_clear_bindings) clear_bindings = nullptr;
  decltype(&sqlite3_finalize) finalize = nullptr;
  decltype(&sqlite3_serialize) serialize = nullptr;
  decltype(&sqlite3_free) free = nullptr;

  static const library& get() {
    static const library one;
    return one;
  }

 private:
  library() {
    void* const handle = dlopen(file_name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
      throw profile_error(std::string("--sqlite needs the library libsqlite3, which is not installed; ") +
                          how_to_get);
    find(handle, "sqlite3_open_v2", open);
    find(handle, "sqlite3_close", close);
    find(handle, "sqlite3_exec", exec);
    find(handle, "sqlite3_errmsg", errmsg);
    find(handle, "sqlite3_prepare_v2", prepare);
    find(handle, "sqlite3_bind_int64", bind_int64);
    find(handle, "sqlite3_bind_double", bind_double);
    find(handle, "sqlite3_bind_text", bind_text);
    find(handle, "sqlite3_step", step);
    find(handle, "sqlite3_reset", reset);
    find(handle, "sqlite3_clear_bindings", clear_bindings);
    find(handle, "sqlite3_finalize", finalize);
    find(handle, "sqlite3_serialize", serialize);
    find(handle, "sqlite3_free", free);
  }

  template <class Function>
  static void find(void* handle, const char* name, Function& to) {
    to = reinterpret_cast<Function>(dlsym(handle, name));
    if (to == nullptr)
      throw profile_error(std::string("libsqlite3 has no ") + name + "; install version 3.36 or newer");
  }
};

}  // namespace

sqlite_database::sqlite_database() {
  constexpr int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX;
  if (library::get().open("tarn", &handle_, flags, nullptr) != SQLITE_OK) fail();
}

sqlite_database::~sqlite_database() {
  if (handle_ != nullptr) library::get().close(handle_);
}

void sqlite_database::fail() const {
  throw profile_error(std::string("the database cannot be made: ") +
                      (handle_ != nullptr ? library::get().errmsg(handle_) : "no memory"));
}

void sqlite_database::run(const std::string& statement) {
  if (library::get().exec(handle_, statement.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail();
}

void sqlite_database::write(const std::function<void(std::string_view)>& take) const {
  sqlite3_int64 size = 0;
  unsigned char* const bytes = library::get().serialize(handle_, "main", &size, 0);
  if (bytes == nullptr) throw profile_error("the database cannot be made: no memory");
  const std::function<void(unsigned char*)> release = [](unsigned char* block) {
    library::get().free(block);
  };
  const std::unique_ptr<unsigned char, std::function<void(unsigned char*)>> owner(bytes, release);
  take({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)});
}

sqlite_table::sqlite_table(sqlite_database& database, const std::string& name, const std::string& columns)
    : database_(database) {
  database.run("CREATE TABLE " + name + " (" + columns + ")");
  std::string marks = "?";
  for (const char letter : columns) {
    if (letter == ',') marks += ",?";
  }
  const std::string insert = "INSERT INTO " + name + " VALUES (" + marks + ")";
  if (library::get().prepare(database.handle_, insert.c_str(), -1, &insert_, nullptr) != SQLITE_OK)
    database.fail();
}

sqlite_table::~sqlite_table() { library::get().finalize(insert_); }

void sqlite_table::put_whole(std::int64_t value) {
  if (library::get().bind_int64(insert_, ++column_, value) != SQLITE_OK) database_.fail();
}

void sqlite_table::put_real(double value) {
  if (library::get().bind_double(insert_, ++column_, value) != SQLITE_OK) database_.fail();
}

void sqlite_table::put_text(std::string_view value) {
  const auto copied = reinterpret_cast<sqlite3_destructor_type>(std::intptr_t{-1});  // SQLITE_TRANSIENT
  const char* const text = value.data() != nullptr ? value.data() : "";
  if (library::get().bind_text(insert_, ++column_, text, static_cast<int>(value.size()), copied) != SQLITE_OK)
    database_.fail();
}

void sqlite_table::end_row() {
  column_ = 0;
  if (library::get().step(insert_) != SQLITE_DONE) database_.fail();
  library::get().reset(insert_);
  library::get().clear_bindings(insert_);
}

}  // namespace tarn::profiler

#endif
