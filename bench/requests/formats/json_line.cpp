// SPDX-License-Identifier: Apache-2.0
// One pass of nlohmann's SAX parser over a line, straight into the values of its fields.
#include "bench/requests/formats/json_line.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "reference/json_fault.h"

namespace kvproof::bench {
namespace {

using Json = nlohmann::json;
using Sax = nlohmann::json_sax<Json>;

constexpr std::size_t kMaxDepth = 16;  // fields may nest, but not without bound
constexpr std::size_t kNoField = kMaxJsonFields;

/// Collects one line. Every callback returns false once `expected` is set, which ends the parse.
class LineHandler final : public Sax {
 public:
  LineHandler(JsonFields fields, std::vector<JsonObject>& objects, std::size_t max_elements,
              JsonVisitor* visitor)
      : fields_(fields), objects_(objects), max_elements_(max_elements), visitor_(visitor) {}

  [[nodiscard]] const std::string& expected() const { return expected_; }

  /// Where the parse stands: "hash_ids", or "requests[3].in" with the third index from 0.
  [[nodiscard]] std::string path() const {
    std::string out;
    for (const Level& level : levels_) {
      if (level.field == kNoField) break;
      if (!out.empty()) out += '.';
      const JsonField& field = level.fields[level.field];
      out += field.name;
      if (field.kind == JsonKind::objects && level.elements > 0) {
        out += '[' + std::to_string(level.elements - 1) + ']';
      }
    }
    return out;
  }

  bool null() override { return other("null"); }
  bool boolean(bool /*value*/) override { return other("a boolean"); }
  bool number_integer(number_integer_t value) override {
    return value < 0 ? other(std::to_string(value)) : number(static_cast<std::uint64_t>(value));
  }
  bool number_unsigned(number_unsigned_t value) override { return number(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    if (is_ignored() || field().kind != JsonKind::real || value < 0) return other(text);
    return real(value, text);
  }
  bool string(string_t& value) override {
    if (is_ignored() || field().kind != JsonKind::decimal_strings || !levels_.back().in_array) {
      return other(in_quotes(value));
    }
    std::uint64_t number = 0;
    const char* end = value.data() + value.size();
    const auto [stop, code] = std::from_chars(value.data(), end, number);
    if (code != std::errc() || stop != end || number > field().max) {
      return other(in_quotes(value));
    }
    return append(number);
  }
  bool binary(binary_t& /*value*/) override { return other("binary data"); }

  bool start_object(std::size_t /*elements*/) override {
    if (levels_.empty()) return enter(fields_);
    if (is_ignored()) return ignore();
    if (field().kind != JsonKind::objects || !levels_.back().in_array) return other("an object");
    ++levels_.back().elements;
    return enter(*field().elements);
  }
  bool end_object() override {
    if (ignored_ > 0) return leave_ignored();
    for (std::size_t i = 0; i < levels_.back().fields.size(); ++i) {
      const JsonField& field = levels_.back().fields[i];
      if (!field.required || object().has(i)) continue;
      levels_.back().field = i;
      return fail(std::string(field.what) + ", found no such field");
    }
    const std::size_t depth = levels_.size() - 1;
    if (depth > 0 && visitor_ != nullptr) {
      std::string expected = visitor_->end_object(depth, object());
      if (!expected.empty()) return fail(std::move(expected));
    }
    levels_.pop_back();
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    if (levels_.empty()) return other("an array");
    if (is_ignored()) return ignore();
    const JsonKind kind = field().kind;
    if (kind == JsonKind::integer || kind == JsonKind::real || levels_.back().in_array) {
      return other("an array");
    }
    levels_.back().in_array = true;
    return true;
  }
  bool end_array() override {
    if (ignored_ > 0) return leave_ignored();
    levels_.back().in_array = false;
    levels_.back().field = kNoField;
    return true;
  }

  bool key(string_t& name) override {
    if (ignored_ > 0) return true;
    Level& level = levels_.back();
    level.field = kNoField;
    level.elements = 0;
    for (std::size_t i = 0; i < level.fields.size(); ++i) {
      if (name == level.fields[i].name) level.field = i;
    }
    if (level.field == kNoField) return true;
    if (object().has(level.field)) return fail("this field once, found it twice");
    object().values[level.field].seen = true;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    return fail(fault_of(error, position));
  }

 private:
  struct Level {  // an object that is open
    JsonFields fields;
    std::size_t field = kNoField;  // the one whose value is being read
    std::size_t elements = 0;      // objects of the array so far
    bool in_array = false;
  };

  [[nodiscard]] JsonObject& object() { return objects_[levels_.size() - 1]; }
  [[nodiscard]] const JsonField& field() const {
    return levels_.back().fields[levels_.back().field];
  }
  [[nodiscard]] bool is_ignored() const {
    return levels_.empty() || ignored_ > 0 || levels_.back().field == kNoField;
  }

  bool fail(std::string expected) {
    expected_ = std::move(expected);
    return false;
  }
  bool enter(JsonFields fields) {
    if (levels_.size() == kMaxDepth) return too_deep();
    levels_.push_back({fields});
    if (objects_.size() < levels_.size()) objects_.emplace_back();
    for (JsonObject::Value& value : object().values) {
      value.seen = false;
      value.list.clear();
    }
    if (levels_.size() > 1 && visitor_ != nullptr) visitor_->begin_object(levels_.size() - 1);
    return true;
  }
  bool ignore() {
    if (levels_.size() + ignored_ == kMaxDepth) return too_deep();
    ++ignored_;
    return true;
  }
  bool leave_ignored() {
    --ignored_;
    return true;
  }
  bool too_deep() { return fail("at most " + std::to_string(kMaxDepth) + " levels of nesting"); }

  /// Rejects a value that the field may not have. Values of other fields are ignored.
  bool other(const std::string& found) {
    if (levels_.empty()) return fail("a JSON object, found " + found);
    if (is_ignored()) return true;
    return fail(std::string(field().what) + ", found " + printable(found, 80));
  }

  bool number(std::uint64_t value) {
    if (is_ignored()) return other(std::to_string(value));
    switch (field().kind) {
      case JsonKind::integer:
        if (value > field().max) {
          return fail("an integer from 0 to " + std::to_string(field().max) + ", found " +
                      std::to_string(value));
        }
        object().values[levels_.back().field].integer = value;
        levels_.back().field = kNoField;
        return true;
      case JsonKind::real: return real(static_cast<double>(value), std::to_string(value));
      case JsonKind::integers:
        if (!levels_.back().in_array || value > field().max) return other(std::to_string(value));
        return append(value);
      default: return other(std::to_string(value));
    }
  }

  bool real(double value, const std::string& text) {
    if (!(value <= static_cast<double>(field().max))) {
      return fail("a number from 0 to " + std::to_string(field().max) + ", found " +
                  printable(text, 80));
    }
    object().values[levels_.back().field].real = value;
    levels_.back().field = kNoField;
    return true;
  }

  bool append(std::uint64_t value) {
    std::vector<std::uint64_t>& list = object().values[levels_.back().field].list;
    if (list.size() >= max_elements_) {
      return fail("at most " + std::to_string(max_elements_) + " elements, found more");
    }
    list.push_back(value);
    return true;
  }

  JsonFields fields_;
  std::vector<JsonObject>& objects_;
  std::size_t max_elements_;
  JsonVisitor* visitor_;
  std::vector<Level> levels_;
  std::size_t ignored_ = 0;  // levels of nesting inside of an unknown field
  std::string expected_;
};

/// Notes the names of the fields of the outermost object and nothing else.
class NameHandler final : public Sax {
 public:
  std::vector<std::string> names;

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*elements*/) override { return ++depth_ <= kMaxDepth; }
  bool start_array(std::size_t /*elements*/) override { return ++depth_ <= kMaxDepth; }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ == 1) names.push_back(name.substr(0, 60));
    return names.size() < 64;
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  bool leave() {
    --depth_;
    return true;
  }
  std::size_t depth_ = 0;
};

}  // namespace

const JsonObject& JsonLineReader::read(std::string_view line, const LineReader& lines,
                                       std::size_t max_elements, JsonVisitor* visitor) {
  if (const auto fault = fault_of_text(line)) lines.fail("", *fault);
  if (objects_.empty()) objects_.emplace_back();
  LineHandler handler(fields_, objects_, max_elements, visitor);
  if (!Json::sax_parse(line.data(), line.data() + line.size(), &handler)) {
    lines.fail(handler.path(), handler.expected());
  }
  return objects_.front();
}

std::vector<std::string> json_field_names(std::string_view line) {
  NameHandler handler;
  static_cast<void>(Json::sax_parse(line.data(), line.data() + line.size(), &handler));
  return std::move(handler.names);
}

std::string shortest(double number) {
  std::array<char, 32> text{};
  const auto [end, code] = std::to_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() ? std::string(text.data(), end) : std::string();
}

}  // namespace kvproof::bench
