#pragma once
// SPDX-License-Identifier: MIT
// Runs a program for real and keeps what it printed.

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/temporary_folder.hpp"

namespace seenby::test {

struct CommandResult {
  int exit_code = -1;  ///< 128 + the signal when one ended the program
  std::string out;
  std::string err;
};

[[nodiscard]] inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// As execv takes them; the words must outlive them.
[[nodiscard]] inline std::vector<char*> arguments_of(std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return arguments;
}

/// Runs a program with standard input from a text, and waits for its end.
[[nodiscard]] inline CommandResult run_command(std::vector<std::string> words, std::string_view input = {}) {
  const TemporaryFolder folder;
  const std::string in = folder.file("in", input);
  const std::string out = folder.path("out");
  const std::string err = folder.path("err");
  const std::vector<char*> argv = arguments_of(words);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("expected to fork");
  if (child == 0) {
    const auto redirect = [](const std::string& path, int flags, int to) {
      const int from = ::open(path.c_str(), flags, 0600);
      if (from < 0 || ::dup2(from, to) < 0) ::_exit(126);
    };
    redirect(in, O_RDONLY, STDIN_FILENO);
    redirect(out, O_WRONLY | O_CREAT, STDOUT_FILENO);
    redirect(err, O_WRONLY | O_CREAT, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), content_of(out), content_of(err)};
}

/// What a program writes to a terminal: its standard error is one, its standard output is dropped.
[[nodiscard]] inline std::string shown_on_terminal(std::vector<std::string> words) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) {
    throw std::runtime_error("expected a pseudo-terminal");
  }
  const std::string other_end = ::ptsname(terminal);
  const std::vector<char*> argv = arguments_of(words);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("expected to fork");
  if (child == 0) {
    const int screen = ::open(other_end.c_str(), O_RDWR | O_NOCTTY);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    if (screen < 0 || ::dup2(screen, STDERR_FILENO) < 0 || ::dup2(nowhere, STDOUT_FILENO) < 0) ::_exit(126);
    ::close(screen);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  std::string text;
  std::array<char, 4096> piece{};
  // Reading ends with an error once the child, the other end's only user, is gone.
  for (ssize_t count = 0; (count = ::read(terminal, piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return text;
}

}  // namespace seenby::test
