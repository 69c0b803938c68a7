#pragma once
// SPDX-License-Identifier: MIT
// A connection to PostgreSQL that counts the prepared queries it is asked.

#include <libpq-fe.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace scenario {

struct Finish {
  void operator()(PGconn* connection) const { PQfinish(connection); }
  void operator()(PGresult* result) const { PQclear(result); }
};
using Rows = std::unique_ptr<PGresult, Finish>;

/// Throws std::runtime_error where PostgreSQL refuses. One thread at a time.
class Database {
 public:
  explicit Database(const std::string& address) : connection_(PQconnectdb(address.c_str())) {
    if (PQstatus(connection_.get()) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(connection_.get()));
  }
  Rows run(const std::string& statement) { return checked(PQexec(connection_.get(), statement.c_str())); }
  void prepare(const char* name, const char* statement) {
    checked(PQprepare(connection_.get(), name, statement, 0, nullptr));
  }
  Rows ask(const char* name, const std::vector<std::string>& arguments) { return checked(execute(name, arguments)); }
  /// False where a constraint refuses it.
  bool insert(const char* name, const std::vector<std::string>& arguments) {
    const Rows result(execute(name, arguments));
    return PQresultStatus(result.get()) == PGRES_COMMAND_OK;
  }
  std::uint64_t queries = 0;

 private:
  PGresult* execute(const char* name, const std::vector<std::string>& arguments) {
    std::vector<const char*> values;
    for (const std::string& argument : arguments) values.push_back(argument.c_str());
    ++queries;
    return PQexecPrepared(connection_.get(), name, static_cast<int>(values.size()), values.data(), nullptr, nullptr, 0);
  }
  Rows checked(PGresult* result) {
    Rows rows(result);
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return rows;
    throw std::runtime_error(PQerrorMessage(connection_.get()));
  }
  std::unique_ptr<PGconn, Finish> connection_;
};

}  // namespace scenario
