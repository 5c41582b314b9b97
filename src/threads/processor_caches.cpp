// SPDX-License-Identifier: MIT
#include "threads/processor_caches.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "base/chain.hpp"
#include "os/guarded_memory.hpp"
#include "os/memory.hpp"
#include "os/node.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"

namespace tarn {
namespace {

// A magazine of a processor has at most this many bytes of objects. Of larger objects it has one, and none of those
// above largest_cached.
constexpr std::size_t magazine_limit = 16 * kib;
constexpr std::size_t largest_cached = 32 * kib;
// Objects in a magazine while the class is draining (slot_depot::draining).
constexpr std::size_t most_of_processor_while_draining = 12;

constexpr std::size_t processor_capacity(unsigned size_class) {
  const auto& info = class_info(size_class);
  if (info.size > largest_cached) return 0;
  return std::min<std::size_t>(info.magazine, std::max<std::size_t>(magazine_limit / info.size, 1));
}

constexpr std::size_t all_capacities() {
  std::size_t bytes = 0;
  for (unsigned c = 1; c < size_classes::count; ++c) bytes += 2 * processor_capacity(c) * class_info(c).size;
  return bytes;
}
static_assert(all_capacities() <= processor_caches::most_bytes);

// Of the calling thread.
std::size_t allowed_processors() {
  std::uint64_t set[os::restartable::most_processors / 64] = {};
  const long bytes = os::system_call(SYS_sched_getaffinity, 0, sizeof set, set);
  std::size_t count = 0;
  for (long i = 0; i < bytes / 8; ++i) count += static_cast<std::size_t>(std::popcount(set[i]));
  return std::max<std::size_t>(count, 1);
}

magazine* magazine_below(void** top) {
  while (*--top != nullptr) {
  }
  return reinterpret_cast<magazine*>(reinterpret_cast<char*>(top) - offsetof(magazine, slots));
}

}  // namespace

// A bin that this thread owns. For magazine_bin.
class processor_caches::owned_bin : public magazine_bin<owned_bin> {
 public:
  // Becomes the owner of the class's bin of the processor on which the thread runs, unless is_owner() is false.
  owned_bin(processor_caches& caches, unsigned size_class) : caches_(caches), class_(size_class) {
    const auto found = os::restartable::exchange(caches.bases(), size_class, busy());
    has_table_ = found.top != nullptr;
    if (found.top == nullptr || found.top == busy()) return;
    table_ = reinterpret_cast<table*>(found.words);
    // Partner: the release in ~owned_bin() and in drain().
#if !defined(__SANITIZE_THREAD__)  // GCC knows no fences there; threads do not share caches under it
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
    make_void();
    if (found.top == none()) return;
    loaded_ = magazine_below(found.top);
    top_ = found.top;
    limit_ = loaded_->bottom() + loaded_->count;
    *limit_ = nullptr;
  }
  ~owned_bin() {
    if (!is_owner()) return;
    void** word = none();
    if (!is_empty()) {
      loaded_->count = static_cast<std::uint16_t>(limit_ - loaded_->bottom());
      *limit_ = reinterpret_cast<void*>(os::restartable::end_mark);
      word = top_;
    }
    if (os::is_check_due()) validate();
    // release: partner of the fence in the constructor. A pop or push that reads the word reads the slots through it.
    table_->words[class_].store(word, std::memory_order_release);
  }
  owned_bin(const owned_bin&) = delete;
  owned_bin& operator=(const owned_bin&) = delete;

  [[nodiscard]] bool is_owner() const { return table_ != nullptr; }
  // False: the processor has no words, or all of them are drained, or the sequence was restarted too often.
  [[nodiscard]] bool has_table() const { return has_table_; }

  // Counts a miss.
  void note_slow_call() {
    const std::uint32_t calls = table_->slow_calls.fetch_add(1, std::memory_order_relaxed) + 1;
    if (calls % cache_budget::watch_interval == 0 && caches_.budget_.is_worth_watching()) {
      caches_.central_.wake_decay();
    }
  }
  // Whether the class may have a magazine.
  bool ensure_capacity() { return most() != 0 || raise_to(first_capacity(class_)); }
  void* take() {
    if (top_[-1] == nullptr) return nullptr;
    void* const object = *--top_;
    free_mark::clear(caches_.central_.map(), class_, object);
    return object;
  }
  bool put(void* object) {
    if (top_ == limit_) return false;
    *top_++ = object;
    return true;
  }
  [[nodiscard]] unsigned home() const { return table_->home; }

  // For magazine_bin.
  magazine*& loaded() { return loaded_; }
  spare_magazine<magazine>& spare() { return table_->spares[class_]; }
  void**& top() { return top_; }
  void**& limit() { return limit_; }
  [[nodiscard]] std::size_t most() const { return table_->most[class_]; }
  [[nodiscard]] std::size_t most_now() const {
    return drains() ? std::min(most(), most_of_processor_while_draining) : most();
  }
  bool raise_most() { return raise_to(std::max(most() * 2, first_capacity(class_))); }
  magazine* new_magazine() {
    return caches_.central_.magazines().allocate(caches_.central_.metadata(),
                                                 magazine_store::index_for(most()));
  }
  void discard(magazine* m) { caches_.central_.magazines().deallocate(m); }
  // A thread's magazine may be larger than one of a processor: the surplus goes back to the spans.
  magazine* take_full() {
    magazine* const m = caches_.central_.take_full(class_, home());
    if (m != nullptr && m->count > most() && !(raise_to(m->count) && m->count <= most())) {
      flush(m->bottom() + most(), m->count - most());
      m->count = static_cast<std::uint16_t>(most());
    }
    return m;
  }
  bool give_full(magazine* m, magazine*& empty) {
    return !drains() && caches_.central_.give_full(class_, m, home(), &empty);
  }
  std::size_t refill(magazine* m) {
    return caches_.central_.refill(class_, m, std::min<std::size_t>(most_now(), m->capacity), home());
  }
  void flush(void** objects, std::size_t count) { caches_.central_.flush(class_, objects, count); }
  [[nodiscard]] bool drains() const { return caches_.central_.draining(class_, home()); }

 private:
  // False: the capacity stays.
  bool raise_to(std::size_t wanted) {
    wanted = std::min(wanted, processor_capacity(class_));
    if (wanted <= most()) return false;
    if (!caches_.budget_.pay(2 * class_info(class_).size * (wanted - most()), most() == 0)) return false;
    table_->most[class_] = static_cast<std::uint8_t>(wanted);
    return true;
  }
  void validate() {
    TARN_INVARIANT("processor_caches", this, most() <= processor_capacity(class_));
    if (is_empty()) return;
    TARN_INVARIANT("processor_caches", this, loaded_->slots[0] == nullptr);
    TARN_INVARIANT("processor_caches", this, loaded_->bottom() <= top_ && top_ <= limit_);
    TARN_INVARIANT("processor_caches", this,
                   loaded_->count <= std::min<std::size_t>(most(), loaded_->capacity));
    for (void** slot = loaded_->bottom(); slot != limit_; ++slot) {
      TARN_INVARIANT("processor_caches", this, (address_of(*slot) & os::restartable::end_mark) == 0);
      TARN_INVARIANT("processor_caches", this,
                     slot >= top_ || free_mark::is_set(caches_.central_.map(), class_, *slot));
    }
  }

  processor_caches& caches_;
  const unsigned class_;
  bool has_table_ = false;
  table* table_ = nullptr;
  magazine* loaded_ = no_magazine();
  void** top_ = nullptr;
  void** limit_ = nullptr;
};

// ---- who is served ----

std::size_t processor_caches::thread_caches_wanted() {
  switch (use_.load(std::memory_order_relaxed)) {
    case use::on: return 1;
    case use::off: return ~std::size_t{0};
    default:
      return vfork_is_followed_.load(std::memory_order_relaxed)
                 ? automatic_caches_.load(std::memory_order_relaxed)
                 : ~std::size_t{0};
  }
}

processor_caches::answer processor_caches::choose_for_this_thread() {
  if (registry_.count() < thread_caches_wanted()) return answer::own;
  // acquire: partner of the release in prepare().
  state now = state_.load(std::memory_order_acquire);
  if (now == state::not_asked && !os::in_sandbox()) now = prepare();
  // prepare() may have raised the number.
  if (now != state::usable || registry_.count() < thread_caches_wanted()) return answer::own;
  return os::restartable::usable_in_this_thread() ? answer::processors : answer::own;
}

// Takes milliseconds.
processor_caches::state processor_caches::prepare() {
  state before = state::not_asked;
  // acquire: partner of the release below, if another thread has had the answer since this one looked.
  if (!state_.compare_exchange_strong(before, state::asking, std::memory_order_acquire)) return before;
  bool usable = os::restartable::usable();
  if (usable) {
    const std::size_t bytes = align_up(sizeof(shared_pages), largest_system_page);
    void* const memory = os::reserve_guarded(bytes, largest_system_page, os::memory_access::read_write).start;
    usable = memory != nullptr && os::system_call(SYS_madvise, memory, bytes, MADV_WIPEONFORK) == 0;
    if (usable) {
      pages_ = new (memory) shared_pages;
      pages_->is_own.store(1, std::memory_order_relaxed);
      automatic_caches_.store(std::max(allowed_processors() * caches_per_processor, least_thread_caches),
                              std::memory_order_relaxed);
    }
  }
  // release: partner of the acquires in choose_for_this_thread() and above.
  state_.store(usable ? state::usable : state::not_usable, std::memory_order_release);
  return usable ? state::usable : state::not_usable;
}

// ---- misses ----

void* processor_caches::allocate_slow(unsigned size_class) {
  unsigned home = 0;
  if (processor_capacity(size_class) != 0) {
    for (int tries = 0; tries < 2; ++tries) {
      owned_bin bin(*this, size_class);
      if (bin.is_owner()) {
        bin.note_slow_call();
        home = bin.home();
        if (void* const object = bin.take()) return object;
        if (bin.ensure_capacity() && bin.get_objects()) return bin.take();
        break;
      }
      if (bin.has_table() || !make_table()) break;
    }
  }
  return central_.take_one(size_class, home);
}

void processor_caches::free_slow(unsigned size_class, void* object) {
  if (!size_classes::is_grain(size_class) && processor_capacity(size_class) != 0) {
    for (int tries = 0; tries < 2; ++tries) {
      owned_bin bin(*this, size_class);
      if (bin.is_owner()) {
        bin.note_slow_call();
        if (bin.put(object)) return;
        if (!bin.ensure_capacity()) break;
        bin.make_room();
        if (!bin.put(object)) break;
        object = nullptr;
        break;
      }
      if (bin.has_table() || !make_table()) break;
    }
  }
  if (object != nullptr) central_.flush(size_class, &object, 1);
  central_.release_surplus(size_class);
}

// Makes the words of the processor on which the thread runs. False: they exist, or there is no memory.
bool processor_caches::make_table() {
  // acquire: partner of the release in make_words_anew().
  if (pages_->is_own.load(std::memory_order_acquire) == 0) {
    make_words_anew();
    return true;
  }
  const unsigned processor = os::restartable::processor();
  if (processor >= os::restartable::most_processors) return false;
  for (const table* t = tables_.load(std::memory_order_acquire); t != nullptr; t = t->next) {
    if (t->processor == processor) return false;
  }
  void* const memory = central_.metadata().allocate(sizeof(table), separation);
  if (memory == nullptr) return false;
  auto* const made = new (memory) table{};
  for (word& w : made->words) w.store(none(), std::memory_order_relaxed);
  made->processor = processor;
  const unsigned node = os::this_node();
  os::lock_guard guard(registry_.lock());
  for (const table* t = tables_.load(std::memory_order_relaxed); t != nullptr; t = t->next) {
    // Another thread was faster: the memory is lost, once per processor at most.
    if (t->processor == processor) return true;
  }
  made->home = central_.homes().enter(node);
  made->next = tables_.load(std::memory_order_relaxed);
  // release: partner of the acquires of those who walk the list.
  tables_.store(made, std::memory_order_release);
  // release: the sequences read the words through the address.
  if (!pages_->drained)
    pages_->base[processor].store(reinterpret_cast<std::uintptr_t*>(made), std::memory_order_release);
  return true;
}

// In a forked child, before it uses any word: what the parent's threads had in the bins is lost to the child.
void processor_caches::make_words_anew() {
  os::lock_guard guard(registry_.lock());
  if (pages_->is_own.load(std::memory_order_relaxed) != 0) return;
  for (table* t = tables_.load(std::memory_order_relaxed); t != nullptr; t = t->next) {
    for (unsigned c = 1; c < size_classes::count; ++c) {
      t->words[c].store(none(), std::memory_order_relaxed);
      t->last_words[c].store(nullptr, std::memory_order_relaxed);
      t->most[c] = 0;
      new (&t->spares[c]) spare_magazine<magazine>;
    }
    t->home = central_.homes().enter();
    // release: as in make_table().
    pages_->base[t->processor].store(reinterpret_cast<std::uintptr_t*>(t), std::memory_order_release);
  }
  // release: partner of the acquire in make_table(), end_period(), drain() and cached_bytes().
  pages_->is_own.store(1, std::memory_order_release);
}

// ---- giving back ----

bool processor_caches::end_period() {
  if (!has_words()) return false;
  bool in_use = false;
  for (table* t = tables_.load(std::memory_order_acquire); t != nullptr; t = t->next) {
    for (unsigned c = 1; c < size_classes::count; ++c) {
      void** const now = t->words[c].load(std::memory_order_relaxed);
      if (now == none()) continue;
      if (t->last_words[c].exchange(now, std::memory_order_relaxed) != now || now == busy()) {
        in_use = true;
      } else if (magazine* const m = t->spares[c].take()) {
        if (m->count != 0) central_.flush(c, m->bottom(), m->count);
        central_.magazines().deallocate(m);
      }
    }
  }
  return in_use;
}

// Makes every sequence fail that has not stored its word yet. False: another thread has done so, or it is not possible.
bool processor_caches::close() {
  {
    os::lock_guard guard(registry_.lock());
    if (pages_->drained) return false;
    pages_->drained = true;
    for (table* t = tables_.load(std::memory_order_relaxed); t != nullptr; t = t->next)
      pages_->base[t->processor].store(nullptr, std::memory_order_relaxed);
  }
  if (os::restartable::stop_all()) {
    // A child that a signal handler has forked meanwhile has no words of its own; what it has was copied while other
    // threads wrote it.
    return pages_->is_own.load(std::memory_order_relaxed) != 0;
  }
  open();
  return false;
}

void processor_caches::open() {
  os::lock_guard guard(registry_.lock());
  // In a child that a signal handler has made meanwhile, the words are not its own yet.
  if (pages_->is_own.load(std::memory_order_relaxed) == 0) return;
  // release: as in make_table(); publishes what the drainer has changed.
  for (table* t = tables_.load(std::memory_order_relaxed); t != nullptr; t = t->next)
    pages_->base[t->processor].store(reinterpret_cast<std::uintptr_t*>(t), std::memory_order_release);
  pages_->drained = false;
}

// The magazines of a bin, as a chain; the bin has none afterwards. Requires: close() has returned true.
magazine* processor_caches::take_unused(table& t, unsigned size_class, bool all) {
  // acquire: partner of the release in ~owned_bin().
  void** const top = t.words[size_class].load(std::memory_order_acquire);
  if (top == busy() || top == none()) return nullptr;
  if (!all && top != t.last_words[size_class].load(std::memory_order_relaxed)) return nullptr;
  magazine* taken = magazine_below(top);
  taken->bottom()[taken->count] = nullptr;
  taken->count = static_cast<std::uint16_t>(top - taken->bottom());
  taken->next = nullptr;
  if (magazine* const spare = t.spares[size_class].take()) chain::push(taken, spare);
  budget_.refund(std::size_t{2} * class_info(size_class).size * t.most[size_class]);
  t.most[size_class] = 0;
  t.words[size_class].store(none(), std::memory_order_relaxed);
  return taken;
}

void processor_caches::drain(bool all) {
  if (!has_words() || os::in_sandbox()) return;
  const auto is_unused = [all](const table& t, unsigned c) {
    void** const now = t.words[c].load(std::memory_order_relaxed);
    return now != none() && (all || now == t.last_words[c].load(std::memory_order_relaxed));
  };
  bool any = false;
  for (table* t = tables_.load(std::memory_order_acquire); t != nullptr; t = t->next) {
    for (unsigned c = 1; c < size_classes::count; ++c) any = any || is_unused(*t, c);
  }
  if (!any || !close()) return;
  // The objects go back to their spans after the bins are in use again.
  magazine* taken = nullptr;
  for (table* t = tables_.load(std::memory_order_acquire); t != nullptr; t = t->next) {
    for (unsigned c = 1; c < size_classes::count; ++c) {
      magazine* m = take_unused(*t, c, all);
      while (m != nullptr) {
        m->drained_class = static_cast<std::uint8_t>(c);
        chain::push(taken, chain::pop(m));
      }
    }
  }
  open();
  while (magazine* const m = chain::pop(taken)) {
    if (m->count != 0) central_.flush(m->drained_class, m->bottom(), m->count);
    central_.magazines().deallocate(m);
  }
  for (unsigned c = 1; c < size_classes::count; ++c) central_.release_surplus(c);
}

// Reads magazines without synchronization; a magazine's memory always holds magazines, and its lowest slot is null.
__attribute__((no_sanitize("thread"))) std::size_t processor_caches::cached_bytes() const {
  if (!has_words()) return 0;
  std::size_t bytes = 0;
  for (table* t = tables_.load(std::memory_order_acquire); t != nullptr; t = t->next) {
    for (unsigned c = 1; c < size_classes::count; ++c) {
      std::size_t count = 0;
      void** slot = t->words[c].load(std::memory_order_acquire);
      while (count < largest_magazine && __atomic_load_n(--slot, __ATOMIC_RELAXED) != nullptr) ++count;
      if (const magazine* const spare = t->spares[c].look()) count += spare->count;
      bytes += count * class_info(c).size;
    }
  }
  return bytes;
}

}  // namespace tarn
