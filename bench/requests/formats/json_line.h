// SPDX-License-Identifier: Apache-2.0
// Reads lines of JSON, one object each, by a list of the fields that are wanted. Every JSONL
// loader is such a list; fields that are not in it are ignored, nested up to 16 levels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/support/line_reader.h"

namespace kvproof::bench {

enum class JsonKind {
  integer,          // from 0 to max, without fraction or exponent
  real,             // any number from 0 to max
  integers,         // an array of integers from 0 to max
  decimal_strings,  // the same, each spelled as a string
  objects,          // an array of objects with the fields of `elements`
};

struct JsonField {
  std::string_view name;
  JsonKind kind = JsonKind::integer;
  std::string_view what;  // completes "expected ..."
  std::uint64_t max = 0;
  bool required = true;
  const std::span<const JsonField>* elements = nullptr;
};
using JsonFields = std::span<const JsonField>;

inline constexpr std::size_t kMaxJsonFields = 8;

/// The values of one object, by the position of their field in the list.
struct JsonObject {
  struct Value {
    bool seen = false;
    std::uint64_t integer = 0;
    double real = 0;
    std::vector<std::uint64_t> list;
  };
  std::array<Value, kMaxJsonFields> values;

  [[nodiscard]] bool has(std::size_t field) const { return values[field].seen; }
  [[nodiscard]] double real(std::size_t field) const { return values[field].real; }
  [[nodiscard]] std::int64_t integer(std::size_t field) const {
    return static_cast<std::int64_t>(values[field].integer);
  }
  [[nodiscard]] const std::vector<std::uint64_t>& list(std::size_t field) const {
    return values[field].list;
  }
};

/// Is told of nested objects as they are read; inner objects end before the outer one.
class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  /// @param depth 1 for elements of a field of the line's own object
  virtual void begin_object(std::size_t depth) = 0;
  /// @return what was expected of the object if it is wrong, else an empty text
  [[nodiscard]] virtual std::string end_object(std::size_t depth, const JsonObject& object) = 0;
};

class JsonLineReader {
 public:
  explicit JsonLineReader(JsonFields fields) : fields_(fields) {}

  /// Reads the current line of `lines`; its InputError names the field. The object stays valid
  /// until the next call.
  /// @param max_elements longest list of numbers
  [[nodiscard]] const JsonObject& read(std::string_view line, const LineReader& lines,
                                       std::size_t max_elements, JsonVisitor* visitor = nullptr);

 private:
  JsonFields fields_;
  std::vector<JsonObject> objects_;  // [depth], kept for the capacity of their lists
};

/// The names of the fields of the object that `line` starts with, in order, as far as it is JSON;
/// at most 64.
[[nodiscard]] std::vector<std::string> json_field_names(std::string_view line);

/// "5250" or "5250.5": the shortest that reads back as the same number.
[[nodiscard]] std::string shortest(double number);

}  // namespace kvproof::bench
