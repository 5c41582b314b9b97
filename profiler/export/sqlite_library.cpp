// SPDX-License-Identifier: MIT
#ifdef TARN_HAS_SQLITE
#include "profiler/export/sqlite_library.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

namespace {

constexpr const char* file_name = "libsqlite3.so.0";
constexpr const char* how_to_get = "Debian, Ubuntu: apt install libsqlite3-0";

class library {
  void* const handle_ =
      dlopen(file_name, RTLD_NOW | RTLD_LOCAL);  // before the functions, which are found by it

 public:
  decltype(&sqlite3_open_v2) open = find<decltype(open)>("sqlite3_open_v2");
  decltype(&sqlite3_close) close = find<decltype(close)>("sqlite3_close");
  decltype(&sqlite3_exec) exec = find<decltype(exec)>("sqlite3_exec");
  decltype(&sqlite3_errmsg) errmsg = find<decltype(errmsg)>("sqlite3_errmsg");
  decltype(&sqlite3_prepare_v2) prepare = find<decltype(prepare)>("sqlite3_prepare_v2");
  decltype(&sqlite3_bind_int64) bind_int64 = find<decltype(bind_int64)>("sqlite3_bind_int64");
  decltype(&sqlite3_bind_double) bind_double = find<decltype(bind_double)>("sqlite3_bind_double");
  decltype(&sqlite3_bind_text) bind_text = find<decltype(bind_text)>("sqlite3_bind_text");
  decltype(&sqlite3_step) step = find<decltype(step)>("sqlite3_step");
  decltype(&sqlite3_reset) reset = find<decltype(reset)>("sqlite3_reset");
  decltype(&sqlite3_clear_bindings) clear_bindings = find<decltype(clear_bindings)>("sqlite3_clear_bindings");
  decltype(&sqlite3_finalize) finalize = find<decltype(finalize)>("sqlite3_finalize");

  static const library& get() {
    static const library one;
    return one;
  }

 private:
  template <class Function>
  Function find(const char* name) const {
    if (handle_ == nullptr)
      throw profile_error(std::string("--sqlite needs the library libsqlite3, which is not installed; ") +
                          how_to_get);
    if (void* const found = dlsym(handle_, name)) return reinterpret_cast<Function>(found);
    throw profile_error(std::string("libsqlite3 has no ") + name + "; install a newer version");
  }
};

}  // namespace

// A file that SQLite and this process have open and that has no name any more.
sqlite_database::sqlite_database() {
  const library& sqlite = library::get();
  const char* const folder = std::getenv("TMPDIR");
  std::string path =
      std::string(folder != nullptr && *folder == '/' ? folder : "/tmp") + "/tarn-sqlite-XXXXXX";
  file_ = mkostemp(path.data(), O_CLOEXEC);
  if (file_ < 0) refuse(std::string("cannot make ") + path + ": " + std::strerror(errno));
  constexpr int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
  const int result = sqlite.open(path.c_str(), &handle_, flags, nullptr);
  unlink(path.c_str());
  if (result == SQLITE_OK) {
    // Nothing is undone, and nothing has to survive a crash of the machine.
    if (sqlite.exec(handle_, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF", nullptr, nullptr,
                    nullptr) == SQLITE_OK)
      return;
  }
  const std::string reason = handle_ != nullptr ? sqlite.errmsg(handle_) : "no memory";
  end();
  refuse(reason);
}

sqlite_database::~sqlite_database() { end(); }

void sqlite_database::end() noexcept {
  if (handle_ != nullptr) library::get().close(handle_);
  if (file_ >= 0) close(file_);
}

void sqlite_database::refuse(const std::string& reason) {
  throw profile_error("the database cannot be made: " + reason +
                      "; make room in the folder of TMPDIR (by default /tmp), or set TMPDIR to another one");
}

void sqlite_database::fail() const { refuse(library::get().errmsg(handle_)); }

void sqlite_database::run(const std::string& statement) {
  if (library::get().exec(handle_, statement.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail();
}

void sqlite_database::write(const std::function<void(std::string_view)>& take) const {
  std::string piece(std::size_t{1} << 20, '\0');
  off_t offset = 0;
  for (;;) {
    const ssize_t count = pread(file_, piece.data(), piece.size(), offset);
    if (count == 0) return;
    if (count < 0) {
      if (errno == EINTR) continue;
      refuse(std::strerror(errno));
    }
    take(std::string_view(piece).substr(0, static_cast<std::size_t>(count)));
    offset += count;
  }
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
