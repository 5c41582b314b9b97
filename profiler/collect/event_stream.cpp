// SPDX-License-Identifier: MIT
#include "profiler/collect/event_stream.hpp"

#include <algorithm>

#include "profiler/model/script_address.hpp"

namespace tarn::profiler {

namespace {

word_kind kind_of(std::uint64_t word) { return static_cast<word_kind>(word & 15); }

std::uint64_t words_behind(text_kind what) {
  if (what == text_kind::module) return 3;
  return what == text_kind::script_line ? 2 : 0;
}

// The kinds of blocks' events have the same numbers in both.
event_kind event_of(word_kind kind) { return static_cast<event_kind>(kind); }
static_assert(static_cast<int>(event_kind::operator_new) == static_cast<int>(word_kind::operator_new) &&
              static_cast<int>(event_kind::free) == static_cast<int>(word_kind::free) &&
              static_cast<int>(event_kind::operator_delete) == static_cast<int>(word_kind::operator_delete));

std::uint64_t address_of(std::uint64_t word) { return word >> address_shift << 3; }

constexpr std::uint64_t unrecorded_block = 8;
constexpr std::uint64_t most_halvings = 32;
constexpr std::size_t most_nodes = std::size_t{1} << 23;  // as many as a recorder counts

}  // namespace

void event_stream::reset(const std::uint64_t* words, std::uint64_t ring_words, process_model* model,
                         const tick_clock* clock, module_sink* modules, std::uint64_t start_ns) {
  *this = {};
  words_ = words;
  mask_ = ring_words - 1;
  model_ = model;
  clock_ = clock;
  modules_ = modules;
  start_ns_ = start_ns;
  nodes_.assign(1, 0);
}

bool event_stream::needs(std::uint64_t count) {
  if (head_ - at_ >= count) return true;
  broken_ = true;
  at_ = head_;
  return false;
}

std::uint64_t event_stream::ns_of(std::uint64_t ticks) const {
  const std::uint64_t ns = clock_->to_ns(ticks);
  return ns > start_ns_ ? ns - start_ns_ : 0;
}

call_duration event_stream::duration(std::uint64_t figure) const {
  return {true, true, (figure & 1) != 0, clock_->duration_ns(figure >> 1)};
}

std::uint32_t event_stream::node_at(std::uint64_t id) const { return id < nodes_.size() ? nodes_[id] : 0; }

void event_stream::begin_thread(std::uint32_t id) {
  const std::uint64_t now = ns_of(ticks_);
  if (has_thread_) model_->end_thread(thread_, now);
  thread_ = model_->begin_thread(id, now);
  has_thread_ = true;
}

void event_stream::take_module(const std::string& text, std::uint64_t words_at) {
  if (modules_ == nullptr) return;
  const std::size_t path_bytes = std::min(text.find('\0'), text.size());
  const std::string_view id = std::string_view(text).substr(std::min(path_bytes + 1, text.size()));
  modules_->loaded({text.substr(0, path_bytes), build_id_text(id), word(words_at), word(words_at + 1),
                    word(words_at + 2)});
}

void event_stream::take_line(const std::string& text, std::uint64_t words_at) {
  const std::uint64_t address = word(words_at);
  const std::uint64_t numbers = word(words_at + 1);
  const std::uint64_t function_bytes = std::min<std::uint64_t>(numbers >> 32, text.size());
  if (modules_ == nullptr || !is_script_address(address)) return;
  modules_->add_script_line(address, {text.substr(0, function_bytes), text.substr(function_bytes),
                                      static_cast<std::uint32_t>(numbers), false});
}

bool event_stream::take_text(std::uint64_t first) {
  const auto what = static_cast<text_kind>(first >> 4 & 255);
  const std::uint64_t length = first >> 16 & 65535;
  const std::uint64_t text_words = (length + 7) / 8;
  const std::uint64_t count = 1 + text_words + words_behind(what);
  if (length > most_text_bytes || !needs(count)) {
    broken_ = true;
    at_ = head_;
    return false;
  }
  std::string text;
  for (std::uint64_t index = 0; index < text_words; ++index) {
    const std::uint64_t part = word(1 + index);
    text.append(reinterpret_cast<const char*>(&part), std::min<std::uint64_t>(8, length - 8 * index));
  }
  if (what == text_kind::module) {
    take_module(text, 1 + text_words);
  } else if (what == text_kind::script_line) {
    take_line(text, 1 + text_words);
  } else if (has_thread_) {
    model_->name_thread(thread_, text);
  }
  at_ += count;
  return true;
}

void event_stream::take_note(std::uint64_t first) {
  const std::uint64_t figure = first >> 12;
  switch (static_cast<note_kind>(first >> 4 & 255)) {
    case note_kind::size: notes_.size = figure; break;
    case note_kind::alignment: notes_.alignment = figure; break;
    case note_kind::usable: notes_.usable = figure; break;
    case note_kind::checked_pages: notes_.checked_pages = figure; break;
    case note_kind::resident_pages: notes_.resident_pages = figure; break;
    case note_kind::call_ticks: notes_.took = duration(figure); break;
    case note_kind::untimed_call: notes_.took = {true, false, false, 0}; break;
    case note_kind::free_ticks:
      if (has_thread_) model_->free_took(thread_, duration(figure));
      break;
    case note_kind::stack_end: model_->thread_stack(figure); break;
    case note_kind::nothing_ticks: model_->nothing_took(duration(figure)); break;
    case note_kind::untimed_free:
      if (has_thread_) model_->free_took(thread_, {true, false, false, 0});
      break;
    case note_kind::halvings: halvings_ = static_cast<std::uint8_t>(std::min(figure, most_halvings)); break;
    case note_kind::unmap_refused:
      if (has_thread_) model_->unmap_refused(thread_, ns_of(ticks_), figure << 3);
      break;
    case note_kind::nodes_anew:
      nodes_.assign(1, 0);
      notes_ = {};
      break;
  }
  ++at_;
}

// True: a word without a time was consumed, and the next word may be looked at. False: the words are broken.
bool event_stream::take_untimed(std::uint64_t first) {
  switch (kind_of(first)) {
    case word_kind::time:
      ticks_ = first >> kind_bits;
      ++at_;
      return true;
    case word_kind::node:
      if (!needs(2)) return false;
      if (nodes_.size() < most_nodes) nodes_.push_back(model_->node(node_at(first >> 32), word(1)));
      at_ += 2;
      return true;
    case word_kind::thread:
      begin_thread(static_cast<std::uint32_t>(first >> 32));
      ++at_;
      return true;
    case word_kind::text: return take_text(first);
    case word_kind::note: take_note(first); return true;
    default: break;
  }
  broken_ = true;
  at_ = head_;
  return false;
}

bool event_stream::peek(std::uint64_t& time_ns) {
  while (at_ != head_) {
    const std::uint64_t first = word(0);
    const word_kind kind = kind_of(first);
    std::uint64_t count = 0;
    switch (kind) {
      case word_kind::malloc:
      case word_kind::calloc:
      case word_kind::aligned:
      case word_kind::operator_new:
      case word_kind::realloc_end:
      case word_kind::unmap: count = 2; break;
      case word_kind::free:
      case word_kind::operator_delete:
      case word_kind::realloc_begin: count = 1; break;
      case word_kind::map: count = 3; break;
      default:
        if (!take_untimed(first)) return false;
        continue;
    }
    if (!needs(count)) return false;
    event_[0] = first;
    for (std::uint64_t index = 1; index < count; ++index) event_[index] = word(index);
    event_words_ = count;
    // An event before any `thread` word: the ring's beginning was overwritten. Assign it to a thread of number 0.
    if (!has_thread_) begin_thread(0);
    next_ticks_ = ticks_ + (first >> kind_bits & most_ticks);
    next_ns_ = ns_of(next_ticks_);
    time_ns = next_ns_;
    return true;
  }
  return false;
}

allocation_event event_stream::allocation(event_kind kind) const {
  allocation_event event{.time_ns = next_ns_, .address = address_of(event_[0]), .kind = kind};
  const std::uint64_t size = event_[1] >> 32;
  event.size = size == size_elsewhere ? notes_.size : size;
  event.usable = notes_.usable;
  event.alignment = notes_.alignment;
  event.node = node_at(event_[1] & 0xffffffff);
  event.halvings = halvings_;
  event.took = notes_.took;
  return event;
}

release_event event_stream::release(event_kind kind) const {
  return {next_ns_, address_of(event_[0]), notes_.checked_pages, notes_.resident_pages, kind};
}

void event_stream::take() {
  ticks_ = next_ticks_;
  const word_kind kind = kind_of(event_[0]);
  switch (kind) {
    case word_kind::malloc:
    case word_kind::calloc:
    case word_kind::aligned:
    case word_kind::operator_new: model_->allocated(thread_, allocation(event_of(kind))); break;
    case word_kind::free:
    case word_kind::operator_delete: model_->freed(thread_, release(event_of(kind))); break;
    case word_kind::realloc_begin: model_->realloc_begins(thread_, release(event_kind::realloc)); break;
    case word_kind::realloc_end: {
      const allocation_event event = allocation(event_kind::realloc);
      model_->realloc_ends(thread_, event, event.address != unrecorded_block);
      break;
    }
    case word_kind::map:
      model_->mapped(thread_, next_ns_, address_of(event_[0]), event_[1], node_at(event_[2] & 0xffffffff));
      break;
    case word_kind::unmap: model_->unmapped(thread_, next_ns_, address_of(event_[0]), event_[1]); break;
    default: break;
  }
  notes_ = {};
  at_ += event_words_;
}

}  // namespace tarn::profiler
