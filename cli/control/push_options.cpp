// SPDX-License-Identifier: MIT
#include "cli/control/push_options.hpp"

#include <fmt/core.h>

#include "cli/control/pushed_labels.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace {

constexpr double most_push_seconds = 86400;

}  // namespace

std::vector<CLI::Option*> add_push_options(command& app, push_arguments& push) {
  return {app.option("--push STORE=URL", push.store,
                     "Send heap profiles to pyroscope=, parca= or otlp=http://HOST:PORT, too")
              ->multi_option_policy(CLI::MultiOptionPolicy::Throw),  // its headers are for one store
          app.option("--push-interval SECONDS", push.seconds,
                     "With --push: between two profiles of a process (15)", number(1, most_push_seconds)),
          app.option("--push-label NAME=VALUE", push.labels,
                     "With --push: a label of all processes, as service.version=1.2; may be repeated")
              ->allow_extra_args(false),
          app.option("--push-headers FILE", push.headers_file,
                     "With --push: lines 'Authorization: …' for the requests (also TARN_PUSH_HEADERS)"),
          app.option("--push-ca FILE", push.authorities,
                     "With --push: certificates to trust, instead of the system's")};
}

std::optional<push_settings> push_settings_of(const command& app, const push_arguments& push) {
  if (push.store.empty()) {
    for (const char* const option : {"--push-interval", "--push-label", "--push-headers", "--push-ca"})
      if (app.count(option) != 0)
        throw cli_error(exit_code::usage, fmt::format("{} requires --push", option),
                        "Name the store: --push pyroscope=http://HOST:4040");
    return std::nullopt;
  }
  return push_settings{parse_push_store(push.store), push.seconds, parse_labels(push.labels),
                       push.headers_file, push.authorities};
}

}  // namespace tarn::cli
