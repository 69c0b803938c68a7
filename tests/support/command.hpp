#pragma once
// SPDX-License-Identifier: MIT
// Runs a program for real and keeps what it printed.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

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

/// Runs a program with standard input from a text, and waits for its end.
[[nodiscard]] inline CommandResult run_command(std::vector<std::string> words, std::string_view input = {}) {
  const TemporaryFolder folder;
  const std::string in = folder.file("in", input);
  const std::string out = folder.path("out");
  const std::string err = folder.path("err");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
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

}  // namespace seenby::test
