// SPDX-License-Identifier: Apache-2.0
#include "properties/check/candidate.h"

#include <filesystem>
#include <stdexcept>
#include <utility>

#include "properties/check/beside.h"

namespace kvproof::properties {
namespace {

/// Quotes a text as one word for the shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Candidate foreign_candidate(std::shared_ptr<ForeignProgram> program, std::string option,
                            std::string address) {
  return {.name = program->name(),
          .option = std::move(option),
          .address = std::move(address),
          .foreign = true,
          .open =
              [program](const CacheConfig& config) {
                ForeignProgram::Opening opening = program->open(config);
                return Opened{std::move(opening.subject), {opening.promises, opening.shown}};
              },
          .hurry = [program](bool on) { program->hurry(on); },
          .suppose = [program](std::optional<Traits> traits) { program->suppose(traits); }};
}

}  // namespace

bool is_library(const std::string& subject) {
  return subject.find('/') != std::string::npos || subject.ends_with(".so") ||
         subject.ends_with(".dylib");
}

const optimized::SubjectRow& find_row(const std::string& name) {
  if (const auto* row = optimized::find_subject(name)) return *row;
  std::string known;
  for (const auto& row : optimized::kAllSubjects) known += " " + std::string(row.name) + ",";
  for (const auto& row : optimized::kVariants) known += " " + std::string(row.name) + ",";
  throw std::invalid_argument("no subject of the name " + name + "; there are:" + known +
                              " or the path of a shared library");
}

Candidate own_candidate(const optimized::SubjectRow& row) {
  const std::string name(row.name);
  return {.name = name,
          .option = "--subject=" + name,
          .address = name,
          .hash = std::string(row.hash),
          .open = [&row](const CacheConfig& config) { return open_row(row, config); }};
}

Candidate own_candidate(const optimized::VariantRow& row) {
  const std::string name(row.name);
  return {.name = name,
          .option = "--subject=" + name,
          .address = name,
          .open = [&row](const CacheConfig& config) { return open_row(row, config); }};
}

std::vector<Candidate> own_candidates() {
  std::vector<Candidate> out;
  for (const auto& row : optimized::kSubjects) out.push_back(own_candidate(row));
  for (const auto& row : optimized::kVariants) out.push_back(own_candidate(row));
  return out;
}

bool names_subject(const std::string& text) {
  return optimized::find_subject(text) != nullptr || is_library(text);
}

namespace {

/// The first of the two, if there are two.
Candidate find_one(const SubjectOptions& options) {
  if (!options.subject_command.empty()) {
    auto program = std::make_shared<ForeignProgram>(
        options.subject_command, command_argv(options.subject_command), options.limits);
    return foreign_candidate(std::move(program),
                             "--subject-command=" + quoted(options.subject_command), "");
  }
  for (const auto& row : optimized::kVariants) {
    if (options.subject == row.name) return own_candidate(row);
  }
  if (!is_library(options.subject)) return own_candidate(find_row(options.subject));
  if (!std::filesystem::is_regular_file(options.subject)) {
    const bool there = std::filesystem::exists(options.subject);
    throw std::invalid_argument(options.subject + ": expected a shared library, found " +
                                (std::filesystem::is_directory(options.subject) ? "a directory"
                                 : there ? "something that is no file"
                                         : "no such file"));
  }
  auto program = std::make_shared<ForeignProgram>(options.subject, plugin_argv(options.subject),
                                                  options.limits);
  return foreign_candidate(std::move(program), "--subject=" + quoted(options.subject),
                           std::filesystem::canonical(options.subject).string());
}

std::string folder_at(const std::string& in_checkout, const std::string& installed) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const std::string& folder :
       {"../../../" + in_checkout, "../../share/kvproof/" + installed}) {
    const auto found = std::filesystem::weakly_canonical(self / folder, error);
    if (std::filesystem::is_directory(found, error)) return found.string();
  }
  return {};
}

}  // namespace

Candidate find_candidate(const SubjectOptions& options) {
  return beside_other(find_one(options), options);
}

std::string vectors_folder() { return folder_at("properties/sources/traces/vectors", "vectors"); }
std::string scenes_folder() { return folder_at("properties/story/scenes", "scenes"); }
std::string regressions_folder() {
  return folder_at("properties/sources/regressions", "regressions");
}

}  // namespace kvproof::properties
