// SPDX-License-Identifier: MIT
// Notes the first signal.

#include "stop_signal.hpp"

#include <csignal>

namespace seenby::tool {
namespace {

volatile std::sig_atomic_t asked = 0;

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { asked = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // and not SA_RESTART
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
}

bool stop_asked() noexcept { return asked != 0; }

}  // namespace seenby::tool
