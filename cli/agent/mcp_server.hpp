// SPDX-License-Identifier: MIT
// mcp_server: gives an agent tarn's verbs by the Model Context Protocol, over standard input and output. A verb runs as a child
// process, one at a time, as measurements would disturb each other; meanwhile messages are read, so that a request can be
// cancelled. The calling process must have one thread.
#pragma once

#include <string>

namespace tarn::cli {

// Until the client closes standard input, or a signal ends this process; what runs then is ended, too. Returns the exit code. Throws
// closed_pipe.
int serve_agent(const std::string& version);

}  // namespace tarn::cli
