// SPDX-License-Identifier: Apache-2.0
// Writes result files.
#include "bench/results/result_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "bench/results/schema.h"
#include "reference/support/interrupt.h"

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

/// The number of a stream of this process that the path stands for, as /dev/stdout and /dev/fd/3
/// do; -1 if it stands for none. Opened by its path it would start over at the file's beginning.
int open_descriptor(const fs::path& path) {
  std::error_code error;
  fs::path at = path;
  if (fs::is_symlink(fs::symlink_status(at, error))) {
    const fs::path target = fs::read_symlink(at, error);
    if (target.parent_path() == "/proc/self/fd") at = target;
  }
  const fs::path folder = fs::canonical(fs::absolute(at, error).parent_path(), error);
  if (error || folder != "/proc/" + std::to_string(getpid()) + "/fd") return -1;
  const std::string name = at.filename();
  int out = -1;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), out);
  return code == std::errc() && *end == '\0' ? out : -1;
}

/// Writes to a file, which may be -1, and closes it. @return false, and errno, for a failure
bool write_all(int file, std::string_view text) {
  if (file < 0) return false;
  bool ok = true;
  while (ok && !text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    ok = written > 0 || (written < 0 && errno == EINTR);
  }
  const int reason = errno;
  ok = close(file) == 0 && ok;
  if (!ok && reason != 0) errno = reason;
  return ok;
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

ResultFile::ResultFile(const fs::path& path) : shown_(path), path_(path) {
  if (path.empty()) fail("--json", "the path is empty");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) fail(path, "it is a directory");
  descriptor_ = open_descriptor(path);
  in_place_ = descriptor_ >= 0 || (fs::exists(status) && !fs::is_regular_file(status));
  if (in_place_) {
    if (descriptor_ < 0 && access(path.c_str(), W_OK) != 0) fail(path, last_error());
    return;
  }
  if (fs::is_symlink(fs::symlink_status(path, error)) && fs::exists(status)) {
    path_ = fs::canonical(path, error);  // replace the file, not the link to it
    if (error) fail(path, error.message());
  }
  path_ = fs::absolute(path_, error);
  const Temporary probe(unfinished());
  errno = 0;
  if (!std::ofstream(probe.path(), std::ios::binary)) fail(path, last_error());
}

fs::path ResultFile::unfinished() const {
  return path_.string() + ".part-" + std::to_string(getpid());
}

void ResultFile::commit(const Parameters& environment, std::span<const Result> results) const {
  for (const Result& row : results) {
    const std::string refused(refused_column(row));
    if (refused.empty()) continue;
    throw std::logic_error("result file: " + row.experiment + " does not allow " + refused);
  }
  commit_text(to_json(environment, results));
}

void ResultFile::commit_text(const std::string& text) const {
  if (in_place_) {
    std::cout.flush();  // what was printed comes first, if it goes to the same place
    const int file = descriptor_ >= 0 ? dup(descriptor_) : open(path_.c_str(), O_WRONLY);
    if (!write_all(file, text)) fail(shown_, last_error());
    return;
  }
  const Temporary part(unfinished());
  errno = 0;
  if (!write_all(open(part.path().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666), text)) {
    fail(shown_, last_error());
  }
  std::error_code error;
  fs::rename(part.path(), path_, error);
  if (error) fail(shown_, error.message());
}

}  // namespace kvproof::bench
