// SPDX-License-Identifier: Apache-2.0
// Every source patch to optimized/ is caught by the laws alone, with its law named and a short
// trace; the copy without a patch is not; a patch that does not apply is refused.
#include "properties/mutants/patches.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <stdexcept>

#include "properties/laws.h"
#include "properties/mutants/active_patch.h"
#include "properties/mutants/kill_matrix.h"
#include "properties/mutants/patch_text.h"
#include "properties/random/shrink.h"

namespace kvproof::properties {
namespace {

constexpr std::uint64_t kMostOperations = 200000;  // within which a patch must show
const Oracles kLawsAlone{true, false, false};

TEST(Patches, AreKilledByTheirLawAloneWithAShortTrace) {
  for (const Patch& row : all_patches()) {
    ASSERT_NE(find_law(row.law), nullptr) << row.id << ": " << row.law << " is no law";
    const Configuration* configuration = find_configuration(row.configuration);
    const Profile* profile = find_profile(row.profile);
    ASSERT_TRUE(configuration != nullptr && profile != nullptr) << row.id;
    const MakeSubject make = [&](const CacheConfig& config) { return make_patched(&row, config); };
    const bool decodes = row.law == "C15";
    const Configuration drawn = decodes ? *configuration : without_batches(*configuration);
    ChoiceStream stream(1);
    Counts counts;
    std::optional<Failure> found;
    while (!found && counts.operations < kMostOperations) {
      found = run_case(make, *profile, drawn, draw_case(stream, 200), kLawsAlone, counts);
    }
    if (!found) {
      ADD_FAILURE() << row.id << " survived " << counts.operations << " operations";
      continue;
    }
    std::string laws;
    for (const std::string& id : found->breaches) laws += " " + id;
    EXPECT_TRUE(found->names(std::string(row.law))) << row.id << " broke" << laws << "\n"
                                                    << found->text;
    const Failure small = shrink(make, *found, kLawsAlone);
    EXPECT_LE(small.trace.size(), kLongestTrace) << describe_failure(small, 1, "");
    std::cout << row.id << " " << row.file << " killed by" << laws << " after " << counts.operations
              << " operations; " << found->trace.size() << " operations shrunk to "
              << small.trace.size() << "\n";
  }
}

TEST(Patches, AreDistinctAndEnough) {
  std::set<std::string_view> ids;
  std::set<std::string_view> files;
  for (const Patch& row : all_patches()) {
    EXPECT_TRUE(ids.insert(row.id).second) << row.id << " is listed twice";
    EXPECT_FALSE(row.sentence.empty()) << row.id;
    files.insert(row.file);
  }
  EXPECT_GE(ids.size(), 30U);
  EXPECT_GE(files.size(), 15U);
}

// Else a kill would say nothing about the patch.
TEST(UnpatchedCopy, AgreesWithAllOracles) {
  const MakeSubject make = [](const CacheConfig& config) { return make_patched(nullptr, config); };
  for (const Profile& profile : kProfiles) {
    for (const Configuration& row : kConfigurations) {
      ChoiceStream stream(1);
      Counts counts;
      while (counts.operations < 2000) {
        const auto failure = run_case(make, profile, row, draw_case(stream, 200), {}, counts);
        ASSERT_FALSE(failure.has_value()) << row.name << "\n" << describe_failure(*failure, 1, "");
      }
      EXPECT_EQ(counts.blind + counts.skipped, 0U) << row.name;
    }
  }
}

TEST(ActivePatch, IsInForceInItsScopeAndNotInAConstantExpression) {
  static_assert(!patched::patch_is_on(0));
  EXPECT_TRUE(patched::patch_is_on(0));
  {
    const patched::PatchScope outer(3);
    {
      const patched::PatchScope inner(4);
      EXPECT_TRUE(patched::patch_is_on(4) && !patched::patch_is_on(3));
    }
    EXPECT_TRUE(patched::patch_is_on(3));
  }
  EXPECT_FALSE(patched::patch_is_on(3));
}

std::string patched_as(std::string_view found, std::string_view replacement) {
  const Patch row{"Q1", "a.h", found, replacement, "", "", ""};
  constexpr std::string_view kText =
      "#include \"optimized/b.h\"\nnamespace kvproof::optimized {\nint f(int n) {\n  n =\n      n "
      "+ "
      "1;\n  return n + 1;\n}\n}\n";
  return patched_text("a.h", kText, std::span(&row, 1));
}

std::string complaint_of(std::string_view found) {
  try {
    return "none: " + patched_as(found, "0");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST(PatchedText, PutsAnExpressionOrStatementsBehindASwitchAndRenamesTheRest) {
  const std::string expression = patched_as("return `n + 1`;", "n");
  EXPECT_NE(expression.find("return (::kvproof::patched::patch_is_on(1) ? (n) : (n + 1));"),
            std::string::npos)
      << expression;
  EXPECT_NE(expression.find("#include \"patched/b.h\""), std::string::npos);
  EXPECT_NE(expression.find("namespace kvproof::patched {"), std::string::npos);
  EXPECT_EQ(expression.find("optimized {"), std::string::npos);
  const std::string statement = patched_as("n = n + 1;", "");  // any white space matches any other
  EXPECT_NE(statement.find("if (::kvproof::patched::patch_is_on(1)) {  } else { n =\n"),
            std::string::npos)
      << statement;
}

TEST(PatchedText, RefusesWhatIsNotThereExactlyOnceAndRowsThatTouch) {
  EXPECT_EQ(complaint_of("n + 2"),
            "patch Q1 of optimized/a.h: the text is found 0 times, expected once");
  EXPECT_EQ(complaint_of("n + 1"),
            "patch Q1 of optimized/a.h: the text is found 2 times, expected once");
  EXPECT_EQ(complaint_of("return `n"),
            "patch Q1 of optimized/a.h: nothing is to be found, expected `text`");
  const Patch first{"Q1", "a.h", "`n` + 1", "0", "", "", ""};
  auto both = std::to_array({first, first});
  both[1].id = "Q2";
  both[1].found = "n + `1`";
  EXPECT_NO_THROW((void)patched_text("a.h", "return n + 1;", both));
  both[1].found = "return `n + 1`;";
  EXPECT_THROW((void)patched_text("a.h", "return n + 1;", both), std::invalid_argument);
}

// The program of the build, on a tree from which the text has gone.
TEST(PatchSources, EndsTheBuildWithALineThatNamesTheRow) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "kvproof-patch-sources";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string program = KVPROOF_BINARY_DIR "/tests/kvproof_patch_sources ";
  const auto run = [&](const std::string& files) {
    const auto said = folder / "said";
    const int status = std::system((program + folder.string() + " " + (folder / "to").string() +
                                    " " + files + " 2> " + said.string())
                                       .c_str());
    std::ifstream in(said);
    std::string line;
    std::getline(in, line);
    return std::pair(WEXITSTATUS(status), line);
  };
  std::string files;
  for (const Patch& row : all_patches()) {
    const std::string file(row.file);
    if ((" " + files).find(" " + file + " ") == std::string::npos) files += file + " ";
    std::filesystem::create_directories((folder / file).parent_path());
    std::filesystem::copy_file(KVPROOF_SOURCE_DIR "/optimized/" + file, folder / file,
                               std::filesystem::copy_options::skip_existing);
  }
  EXPECT_EQ(run(files), std::pair(0, std::string()));
  const Patch& last = all_patches().back();
  EXPECT_EQ(run("nothing.h"),
            std::pair(2, "patch " + std::string(all_patches().front().id) + " of optimized/" +
                             std::string(all_patches().front().file) +
                             ": there is no such file, expected one of those copied"));
  std::ofstream(folder / last.file) << "// empty\n";
  EXPECT_EQ(run(files).first, 2);
  EXPECT_NE(run(files).second.find("of optimized/" + std::string(last.file) +
                                   ": the text is found 0 times"),
            std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvproof::properties
