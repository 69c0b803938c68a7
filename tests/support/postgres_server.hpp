#pragma once
// SPDX-License-Identifier: MIT
// PostgresServer: a PostgreSQL cluster of the test's own in a temporary folder, reached by a Unix socket only.

#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary_folder.hpp"

namespace seenby::test {

/// A throw-away cluster: it syncs nothing, listens on no port, and dies with the test process. PostgreSQL refuses to
/// run as root; there it runs as the user `postgres`.
class PostgresServer {
 public:
  PostgresServer() {
    if (::geteuid() == 0) {
      account_ = ::getpwnam("postgres");
      if (account_ == nullptr) throw std::runtime_error("there is no user postgres to run the server as");
      if (::chown(folder_.path().c_str(), account_->pw_uid, account_->pw_gid) != 0) {
        throw std::runtime_error("chown failed");
      }
    }
    const pid_t made =
        run({*program("initdb"), "-D", data(), "-A", "trust", "-U", "seenby", "-E", "UTF8", "--locale=C", "--no-sync"});
    int status = 0;
    ::waitpid(made, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw std::runtime_error("initdb failed: " + log());
    start();
  }
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;
  ~PostgresServer() { end(SIGINT); }

  [[nodiscard]] static bool installed() { return program("postgres") && program("initdb"); }

  /// For PostgresHistory::open.
  [[nodiscard]] std::string address() const {
    return std::string("host=").append(folder_.path()).append(" user=seenby dbname=postgres");
  }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  /// Starts it (again), and waits until it takes connections.
  void start() {
    pid_ = run({*program("postgres"), "-D", data(), "-k", folder_.path(), "-h", "", "-c", "fsync=off", "-c",
                "max_connections=50", "-c", "shared_buffers=32MB"});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < deadline) {
      std::ifstream file(data() + "/postmaster.pid");
      const std::string state{std::istreambuf_iterator<char>(file), {}};
      if (state.find("ready") != std::string::npos && state.find(std::to_string(pid_)) == 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    throw std::runtime_error("PostgreSQL did not start: " + log());
  }
  /// At once, as a crash would end it; sessions are cut off.
  void crash() { end(SIGQUIT); }
  /// Answers nothing until `resume`.
  void pause() const { signal_all(SIGSTOP); }
  void resume() const { signal_all(SIGCONT); }

  /// Runs SQL with psql; what it prints, unaligned and without headers.
  std::string sql(const std::string& statement) const {
    static std::atomic<int> calls{0};
    const std::string out = folder_.path("psql.out" + std::to_string(++calls));
    const pid_t child = run({*program("psql"), "-h", folder_.path(), "-U", "seenby", "-d", "postgres", "-At", "-v",
                             "ON_ERROR_STOP=1", "-o", out, "-c", statement});
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw std::runtime_error("psql failed: " + log());
    std::ifstream file(out);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    while (text.ends_with('\n')) text.pop_back();
    return text;
  }

 private:
  /// Debian keeps each version's programs in a folder of their own; the newest.
  [[nodiscard]] static std::optional<std::string> program(const std::string& name) {
    std::vector<std::string> found;
    std::error_code none;
    for (const auto& version : std::filesystem::directory_iterator("/usr/lib/postgresql", none)) {
      const std::string path = version.path().string() + "/bin/" + name;
      if (::access(path.c_str(), X_OK) == 0) found.push_back(path);
    }
    if (!found.empty()) return *std::max_element(found.begin(), found.end());
    const std::string path = "/usr/bin/" + name;
    return ::access(path.c_str(), X_OK) == 0 ? std::optional(path) : std::nullopt;
  }
  [[nodiscard]] std::string data() const { return folder_.path("data"); }
  [[nodiscard]] std::string log() const {
    std::ifstream file(folder_.path("log"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// Starts a program as the server's user, in a process group of its own, its output in the log.
  [[nodiscard]] pid_t run(std::vector<std::string> arguments) const {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string out = folder_.path("log");
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("fork failed");
    if (child != 0) return child;
    ::setpgid(0, 0);
    if (account_ != nullptr && (::initgroups(account_->pw_name, account_->pw_gid) != 0 ||
                                ::setgid(account_->pw_gid) != 0 || ::setuid(account_->pw_uid) != 0)) {
      ::_exit(125);
    }
    ::prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (::getppid() != parent || ::chdir("/") != 0) ::_exit(126);
    if (std::freopen(out.c_str(), "a", stdout) == nullptr || std::freopen(out.c_str(), "a", stderr) == nullptr) {
      ::_exit(124);
    }
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  /// The server and its sessions, each a process and a process group of its own.
  void signal_all(int signal) const {
    ::kill(pid_, signal);
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
      std::ifstream file(entry.path() / "stat");
      std::string name;
      std::string state;
      pid_t process = 0;
      pid_t parent = 0;
      if (file >> process >> name >> state >> parent && parent == pid_) ::kill(process, signal);
    }
  }
  void end(int signal) {
    if (pid_ <= 0) return;
    ::kill(pid_, signal);
    signal_all(SIGCONT);  // a stopped server hears nothing
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
  }

  TemporaryFolder folder_;
  passwd* account_ = nullptr;
  pid_t pid_ = -1;
};

}  // namespace seenby::test

/// Skips the test aloud where there is no PostgreSQL to start.
#define SEENBY_NEED_POSTGRES()                                                                                  \
  if (!seenby::test::PostgresServer::installed()) { SKIP("PostgreSQL is not installed (package postgresql)"); } \
  static_assert(true)
