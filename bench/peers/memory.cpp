// SPDX-License-Identifier: MIT

#include "memory.hpp"

#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>

namespace peers {
namespace {

/// The rate at which single look-ups of fresh candidates err, over many users: each request holds one user twice, whose
/// filter then alone decides.
double measured_fpr(Store& store, std::size_t users) {
  constexpr std::size_t asked = 20'000;
  std::vector<Items> pages;
  for (std::uint64_t i = 0; i < 64; ++i) pages.push_back(fresh_page(5000 + i));
  store.prepare(pages);
  std::vector<Request> requests;
  Random random(3);
  for (std::size_t i = 0; i < asked; ++i) {
    const User user = random.below(users);
    requests.push_back({{user, user}, static_cast<std::uint32_t>(i % pages.size())});
  }
  const std::size_t unseen = store.select(requests);
  return 1 - static_cast<double>(unseen) / static_cast<double>(asked * page_size);
}

}  // namespace

std::size_t resident_bytes() {
  ::malloc_trim(0);  // what is free is not the store's
  std::size_t total = 0;
  std::size_t resident = 0;
  std::size_t of_files = 0;
  std::ifstream("/proc/self/statm") >> total >> resident >> of_files;
  return (resident - of_files) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void print_memory_figures(const Contender& contender, std::size_t users) {
  Items history;
  // What the loading itself needs is there before the first look: not only reserved, but touched.
  history.items.resize(200'000);
  history.digests.resize(200'000);
  std::size_t items = 0;
  const std::size_t before = resident_bytes();
  const auto start = std::chrono::steady_clock::now();
  const std::unique_ptr<Store> store = contender.make_store();
  for (User user = 0; user < users; ++user) {
    history_of(user, history);
    store->record(user, history);
    items += history.items.size();
  }
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
  const std::size_t grown = resident_bytes() - before;
  std::printf("%.9g %.9g %.9g\n", static_cast<double>(grown) / static_cast<double>(users), measured_fpr(*store, users),
              spent.count() / static_cast<double>(items));
}

MemoryFigures measure_memory(const std::string& contender, std::size_t users) {
  char self[4096];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) throw std::runtime_error("cannot find this program's own file");
  std::string command(1, '\'');
  command.append(self, static_cast<std::size_t>(length)).append("' --measure-memory=").append(contender);
  command.append(" --users=").append(std::to_string(users));
  const std::unique_ptr<FILE, int (*)(FILE*)> child(::popen(command.c_str(), "r"), ::pclose);
  MemoryFigures figures;
  if (!child ||
      std::fscanf(child.get(), "%lf %lf %lf", &figures.bytes_per_user, &figures.fpr, &figures.ns_per_insert) != 3) {
    throw std::runtime_error("the measuring process failed: " + command);
  }
  return figures;
}

}  // namespace peers
