// SPDX-License-Identifier: Apache-2.0
// Writes result files.
#include "bench/results/result_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

namespace kvproof::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

template <class List>
auto* find_in(const List& list, std::string_view name) {
  const auto found = std::ranges::find(
      list, name, [](const auto& entry) -> const std::string& { return entry.first; });
  return found == list.end() ? nullptr : &found->second;
}

// nlohmann writes NaN and infinity as null, which a reader would take for "not measured".
double finite(double value, const std::string& name) {
  if (!std::isfinite(value)) throw std::logic_error("result file: " + name + " is not a number");
  return value;
}

Json object(const Parameters& parameters) {
  Json out = Json::object();
  for (const auto& [name, value] : parameters) {
    if (const double* number = std::get_if<double>(&value)) {
      out[name] = finite(*number, name);
    } else if (const std::int64_t* integer = std::get_if<std::int64_t>(&value)) {
      out[name] = *integer;
    } else {
      out[name] = std::get<std::string>(value);
    }
  }
  return out;
}

// File names may hold any bytes, JSON may not.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Whole numbers without a point: readers compare block counts, and 8192.0 looks measured.
Json number(double value, const std::string& name) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (finite(value, name) == std::trunc(value) && std::abs(value) < kExact) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

Json object(const Metrics& metrics) {
  Json out = Json::object();
  for (const auto& [name, metric] : metrics) {
    Json& entry = out[name];
    entry["value"] = number(metric.value, name);
    entry["unit"] = metric.unit;
    if (metric.min) entry["min"] = number(*metric.min, name);
    if (metric.max) entry["max"] = number(*metric.max, name);
  }
  return out;
}

[[noreturn]] void fail(const fs::path& path, const std::string& reason) {
  throw OutputError(path.string() + ": cannot be written: " + reason);
}

std::string last_error() { return std::strerror(errno != 0 ? errno : EIO); }

}  // namespace

const Metric* Result::metric(std::string_view name) const { return find_in(metrics, name); }
const Value* Result::parameter(std::string_view name) const { return find_in(parameters, name); }

std::string to_json(const Parameters& environment, std::span<const Result> results) {
  // One result a line, so that files can be read and compared by eye.
  std::string text =
      R"({"schema":1,"environment":)" + dump(object(environment)) + R"(,"results":[)";
  bool first = true;
  for (const Result& result : results) {
    Json entry;
    entry["experiment"] = result.experiment;
    entry["parameters"] = object(result.parameters);
    entry["metrics"] = object(result.metrics);
    text += first ? "\n" : ",\n";
    text += dump(entry);
    first = false;
  }
  return text + "\n]}\n";
}

ResultFile::ResultFile(const fs::path& path) : path_(path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (path.empty()) fail("--json", "the path is empty");
  if (fs::is_directory(status)) fail(path, "it is a directory");
  if (fs::is_symlink(fs::symlink_status(path, error)) && fs::exists(status)) {
    path_ = fs::canonical(path, error);  // replace the file, not the link to it
    if (error) fail(path, error.message());
  }
  const bool in_place = fs::exists(status) && !fs::is_regular_file(status);
  temporary_ = in_place ? path : fs::path(path_.string() + ".part-" + std::to_string(getpid()));
  if (in_place) path_ = path;
  errno = 0;
  stream_.open(temporary_, std::ios::binary | std::ios::trunc);
  if (!stream_) fail(path, last_error());
}

ResultFile::~ResultFile() {
  if (committed_ || temporary_ == path_) return;
  stream_.close();
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

void ResultFile::commit(const Parameters& environment, std::span<const Result> results) {
  commit_text(to_json(environment, results));
}

void ResultFile::commit_text(const std::string& text) {
  errno = 0;
  stream_ << text;
  stream_.close();
  if (!stream_) fail(path_, last_error());
  if (temporary_ != path_) {
    std::error_code error;
    fs::rename(temporary_, path_, error);
    if (error) fail(path_, error.message());
  }
  committed_ = true;
}

}  // namespace kvproof::bench
