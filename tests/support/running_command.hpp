#pragma once
// SPDX-License-Identifier: MIT
// A program that a test feeds, signals and waits for.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/command.hpp"
#include "support/temporary_folder.hpp"

namespace seenby::test {

/// Runs while it lives; killed and waited for at the latest by the destructor. Its standard input is a pipe.
class RunningCommand {
 public:
  explicit RunningCommand(std::vector<std::string> words) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("expected a pipe");
    ::signal(SIGPIPE, SIG_IGN);
    const std::vector<char*> argv = arguments_of(words);
    const std::string out = folder_.path("out");
    const std::string err = folder_.path("err");
    child_ = ::fork();
    if (child_ < 0) throw std::runtime_error("expected to fork");
    if (child_ == 0) {
      const auto redirect = [](const std::string& path, int to) {
        if (::dup2(::open(path.c_str(), O_WRONLY | O_CREAT, 0600), to) < 0) ::_exit(126);
      };
      ::dup2(ends[0], STDIN_FILENO);
      redirect(out, STDOUT_FILENO);
      redirect(err, STDERR_FILENO);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(ends[0]);
    input_ = ends[1];
  }
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;
  ~RunningCommand() {
    if (child_ > 0) {
      send(SIGKILL);
      wait();
    }
  }

  /// False when it reads no more.
  bool feed(std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = ::write(input_, text.data(), text.size());
      if (count <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }
  /// What it has written to standard error so far.
  [[nodiscard]] std::string said() const { return content_of(folder_.path("err")); }
  void end_input() { ::close(std::exchange(input_, -1)); }
  void send(int signal) const { ::kill(child_, signal); }
  /// Waits for its end.
  CommandResult wait() {
    int status = 0;
    ::waitpid(std::exchange(child_, -1), &status, 0);
    if (input_ >= 0) end_input();
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content_of(folder_.path("out")),
            content_of(folder_.path("err"))};
  }

 private:
  TemporaryFolder folder_;
  pid_t child_ = -1;
  int input_ = -1;
};

}  // namespace seenby::test
