// SPDX-License-Identifier: MIT
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "seenby/gates/existence_gate.hpp"
#include "seenby/text/name_normaliser.hpp"
#include "support/temporary_folder.hpp"

using seenby::NameNormaliser;

TEST_CASE("Case, width, accents however written, and invisible characters make no other name", "[text][004-07]") {
  const NameNormaliser fold;
  CHECK(fold("Alice") == "alice");
  CHECK(fold("STRASSE") == fold("stra\u00dfe"));
  CHECK(fold("Andre\u0301") == fold("andr\u00e9"));                 // decomposed, composed
  CHECK(fold("\uff21\uff22") == "ab");                              // full width
  CHECK(fold("\ufb01n") == "fin");                                  // a ligature
  CHECK(fold("a\u200bb\u00adc") == "abc");                          // zero-width space, soft hyphen
  CHECK(fold("\u03a3\u0391\u03a3") == fold("\u03c3\u03b1\u03c2"));  // Greek final sigma
  CHECK(fold("") == "");
  CHECK(fold("\xff") == fold("\xfe"));  // no UTF-8: some name, the same on add and on check
  CHECK(fold("alice") != fold("alicf"));
  CHECK(NameNormaliser::name().starts_with("nfkc_casefold/"));
}

TEST_CASE("A gate of usernames finds every spelling, and a saved one is opened under its rules only",
          "[text][004-07]") {
  const seenby::test::TemporaryFolder folder;
  seenby::ExistenceGateOptions<std::string> options;
  options.normalise = NameNormaliser{};
  options.normaliser_name = NameNormaliser::name();
  seenby::ExistenceGate<std::string> gate(options);
  auto rebuild = gate.begin_rebuild(100);
  rebuild.add("Andr\u00e9");
  rebuild.commit();
  for (const char* spelling : {"andre\u0301", "ANDR\u00c9", "\uff21ndr\u00e9"}) {
    CHECK(gate.available(spelling) == seenby::Availability::ask_database);
  }
  CHECK(gate.available("andrea") == seenby::Availability::free);
  REQUIRE(gate.save(folder.path("names")));
  seenby::ExistenceGate<std::string> same(options);
  CHECK(same.open(folder.path("names")));
  options.normaliser_name = "nfkc_casefold/99.0";
  seenby::ExistenceGate<std::string> newer(options);
  CHECK(newer.open(folder.path("names")).error().code == seenby::ErrorCode::parameter_mismatch);
}
