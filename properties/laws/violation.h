// SPDX-License-Identifier: Apache-2.0
// What ends a run: what was broken, by which operation, and in which states.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/operations.h"
#include "reference/outcomes.h"
#include "reference/snapshot.h"
#include "reference/support/say.h"

namespace kvproof::properties {

/// An operation as it was judged. Of a decode step it is the call in which something was broken.
struct JudgedStep {
  std::uint64_t index = 0;  // in the run, where a decode step counts once
  std::optional<Operation> operation = {};
  std::optional<Outcome> answer = {};           // nullopt: there was none
  std::shared_ptr<const Snapshot> before = {};  // null: nobody looked
  std::shared_ptr<const Snapshot> after = {};   // null: the subject showed none
  // By the model, where it objects.
  std::optional<Outcome> expected = {};
  std::shared_ptr<const Snapshot> expected_after = {};
};

struct Broken {
  std::vector<std::string> breaches =
      {};                           // ids of laws, in their order, or "model", "content", ...
  std::string text = {};            // of all of them, a line for each
  std::vector<Sentence> said = {};  // by each of them, shape [breaches]
  JudgedStep step = {};

  [[nodiscard]] bool names(std::string_view id) const {
    return std::ranges::find(breaches, id) != breaches.end();
  }
  /// @return what a breach among them says
  [[nodiscard]] const Sentence& said_by(std::string_view id) const {
    return said.at(std::ranges::find(breaches, id) - breaches.begin());
  }
  /// Adds a breach, and its line to the text. @param name of a law; else empty
  void add(std::string_view id, std::string_view name, Sentence what) {
    text += say(text.empty() ? "" : "\n", id, name.empty() ? "" : " ", name, ": ", what);
    breaches.emplace_back(id);
    said.push_back(std::move(what));
  }
};

/// An oracle objected after an operation.
class Violation : public std::exception, public Broken {
 public:
  /// @param broken names at least one breach
  explicit Violation(Broken broken) : Broken(std::move(broken)) {}
  Violation(std::string_view id, Sentence what, std::string_view name = "") {
    add(id, name, std::move(what));
  }

  [[nodiscard]] const char* what() const noexcept override { return text.c_str(); }
};

}  // namespace kvproof::properties
