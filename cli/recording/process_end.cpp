// SPDX-License-Identifier: MIT
#include "cli/recording/process_end.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

process_end::process_end(std::uint32_t process, std::uint64_t start_ticks)
    : process_(process), start_ticks_(start_ticks) {
  if (is_alive()) handle_ = open_file(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
}

bool process_end::is_alive() const {
  const auto now = process_ != 0 ? profiler::read_process(process_) : std::nullopt;
  return now && now->start_ticks == start_ticks_ && !now->has_ended();
}

bool process_end::has_ended() const {
  pollfd state{handle_.number(), POLLIN, 0};
  if (handle_.number() >= 0 && poll(&state, 1, 0) == 0) return false;
  return !is_alive();
}

std::optional<int> process_end::status() const {
  const auto status = status_by_handle();
  return status ? status : status_of_zombie();
}

std::optional<int> process_end::status_by_handle() const {
  struct {
    std::uint64_t mask = 1U << 3;  // PIDFD_INFO_EXIT
    std::uint64_t group = 0;
    std::uint32_t ids[11] = {};
    std::int32_t exit_code = 0;
  } info;
  static_assert(sizeof info == 64);
  constexpr unsigned long get_info = _IOC(_IOC_READ | _IOC_WRITE, 0xff, 11, sizeof info);
  if (handle_.number() < 0 || ioctl(handle_.number(), get_info, &info) != 0 || (info.mask & (1U << 3)) == 0)
    return std::nullopt;
  return info.exit_code;
}

std::optional<int> process_end::status_of_zombie() const {
  const auto now = process_ != 0 ? profiler::read_process(process_) : std::nullopt;
  if (!now || now->start_ticks != start_ticks_ || !now->has_ended()) return std::nullopt;
  const std::string text = profiler::proc_text(process_, "stat");
  const std::size_t last = text.find_last_of(' ');
  int code = 0;
  const auto read =
      std::from_chars(text.data() + std::min(text.size(), last + 1), text.data() + text.size(), code);
  return read.ec == std::errc() ? std::optional(code) : std::nullopt;
}

}  // namespace tarn::cli
