// SPDX-License-Identifier: MIT
// push_store: where `tarn serve --push` sends heap profiles to, and a profile in the form that this store takes. The forms
// differ only here:
//   pyroscope  its push API, JSON with the profile in pprof's format
//   parca      WriteRaw of its ProfileStoreService, which its gateway takes as JSON, with the same
//   otlp       OpenTelemetry's profiles over HTTP (protobuf, v1development, which may still change)
// Pure functions; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "cli/control/http_client.hpp"

namespace tarn::cli {

using process_labels = std::map<std::string, std::string>;  // by OpenTelemetry's names: "service.name"

struct push_store {
  enum class kind { pyroscope, parca, otlp };
  kind form = kind::otlp;
  std::string url;  // without a slash at its end

  [[nodiscard]] const char* name() const;
};

// "pyroscope=http://host:4040". Throws cli_error (usage).
push_store parse_push_store(const std::string& text);

// `profile`: one of profiler::live_profile(). Throws profile_error.
http_post request_to(const push_store& store, std::string_view profile, const process_labels& labels);

// Why the store has not taken what its answer with a status of 2xx is about; printable, and short. Empty: it has.
std::string rejection_in(const push_store& store, std::string_view answer);

}  // namespace tarn::cli
