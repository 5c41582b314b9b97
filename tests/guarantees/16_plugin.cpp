// SPDX-License-Identifier: MIT
// The library that 16_dlopen opens and closes. It uses the heap in constructors, in calls from several threads, and in
// thread_local and static destructors. Thread safety: any thread may call plugin_work.
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

std::map<std::string, std::vector<int>>* made_by_constructor = nullptr;

struct static_object {
  std::vector<std::string> strings{500, std::string(40, 'p')};
  ~static_object() { strings.emplace_back(2000, 'q'); }
};
static_object object;

thread_local std::unique_ptr<std::vector<std::string>> of_thread;

[[gnu::constructor]] void made() {
  made_by_constructor = new std::map<std::string, std::vector<int>>;
  for (int i = 0; i < 100; ++i) (*made_by_constructor)[std::to_string(i)].assign(50, i);
}
[[gnu::destructor]] void unmade() { delete made_by_constructor; }

}  // namespace

extern "C" [[gnu::visibility("default")]] size_t plugin_work(size_t amount) {
  of_thread = std::make_unique<std::vector<std::string>>();
  for (size_t i = 0; i < amount; ++i) of_thread->emplace_back(i * 3, 'w');
  const size_t size = of_thread->size() + made_by_constructor->size() + object.strings.size();
  of_thread.reset();
  return size;
}
