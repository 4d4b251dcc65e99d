// SPDX-License-Identifier: Apache-2.0
// Every source patch to optimized/ is caught by the laws alone, with its law named and a short
// trace; the copy without a patch is not; a patch that does not apply is refused.
#include "properties/selftest/patches.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <stdexcept>

#include "properties/audit/shrink.h"
#include "properties/laws/laws.h"
#include "properties/selftest/active_patch.h"
#include "properties/selftest/kill_matrix.h"
#include "properties/sources/random/cases.h"
#include "reference/support/say.h"

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
    EXPECT_TRUE(found->names(row.law)) << row.id << " broke" << laws << "\n" << found->text;
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
  static_assert(patched::PatchId("P01") == patched::PatchId(std::string_view("P01")));
  static_assert(!patched::patch_is_on({}));
  EXPECT_TRUE(patched::patch_is_on({}));
  {
    const patched::PatchScope outer("P03");
    {
      const patched::PatchScope inner("P04");
      EXPECT_TRUE(patched::patch_is_on("P04") && !patched::patch_is_on("P03"));
    }
    EXPECT_TRUE(patched::patch_is_on("P03"));
  }
  EXPECT_FALSE(patched::patch_is_on("P03"));
}

std::string patched_as(std::string_view rows, std::string_view copy = "patched") {
  constexpr std::string_view kText =
      "#include \"optimized/b.h\"\n#include \"optimized/c.h\"\nnamespace kvproof::optimized {\n"
      "int f(int n) {\n  n =\n      n + 1;\n  return n + 1;\n}\n}\n";
  const std::string files[] = {"a.h", "b.h"};
  const PatchedFolder folder = read_patches(
      "list", say("folder: optimized\ncopy: ", copy, "\nfile: a.h\ncolumns: id text\n", rows));
  return patched_text(folder, "a.h", kText, files);
}

testing::AssertionResult holds(const std::string& text, std::string_view part) {
  if (text.find(part) != text.npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << part << " is not in\n" << text;
}

std::string complaint_of(std::string_view rows) {
  try {
    return "none: " + patched_as(rows);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST(PatchedText, PutsAnExpressionOrStatementsBehindASwitchAndRenamesTheRest) {
  const std::string expression = patched_as("Q1 | return [-n + 1-]{+n+};");
  EXPECT_TRUE(
      holds(expression, "return (::kvproof::patched::patch_is_on(\"Q1\") ? (n) : (n + 1));"));
  EXPECT_TRUE(holds(expression, "#include \"patched/b.h\""));
  EXPECT_TRUE(holds(expression, "#include \"optimized/c.h\"")) << "which is not copied";
  EXPECT_TRUE(holds(expression, "namespace kvproof::patched {"));
  const std::string kept = patched_as("Q1 | return [-n + 1-]{+n+};", "");
  EXPECT_TRUE(holds(kept, "#include \"optimized/b.h\"\n"));
  EXPECT_TRUE(holds(kept, "namespace kvproof::optimized {"));
  const std::string statement = patched_as("Q1\n  [-n = n +\n  1;-]");  // of any white space
  EXPECT_TRUE(holds(statement, "if (::kvproof::patched::patch_is_on(\"Q1\")) {  } else { n =\n"));
}

TEST(PatchedText, InsertsStatementsAndHoldsAlternatives) {
  const std::string text = patched_as(
      "Q1 | return [-n + 1-]{+n+};\nQ2 | return\n  [-n + 1-]\n  {+2+};\n"
      "Q3 | {+n = 3;+} return n + 1;");
  EXPECT_TRUE(holds(text, "if (::kvproof::patched::patch_is_on(\"Q3\")) { n = 3; } return ("));
  EXPECT_TRUE(holds(text,
                    "return (::kvproof::patched::patch_is_on(\"Q1\") ? (n) : "
                    "(::kvproof::patched::patch_is_on(\"Q2\") ? (2) : (n + 1)));"));
  const std::string either =
      patched_as("Q1 | [-return n + 1;-]{+return 1;+}\nQ2 | [-return n + 1;-]{+return 2;+}");
  EXPECT_TRUE(holds(either, "{ return 1; } else if (::kvproof::patched::patch_is_on(\"Q2\")) { "));
}

TEST(PatchedText, RefusesWhatIsNotThereExactlyOnceAndRowsThatTouch) {
  EXPECT_EQ(complaint_of("Q1 | [-n + 2-]{+0+}"),
            "list:5: Q1 of a.h: the text is found 0 times, expected once");
  EXPECT_EQ(complaint_of("\nQ1 | [-n + 1-]{+0+}"),
            "list:6: Q1 of a.h: the text is found 2 times, expected once");
  for (const char* text : {"n", "{+n+}", "[--]", "return [-n", "return {+n"}) {
    EXPECT_EQ(
        complaint_of(say("Q1 | ", text)),
        "list:5: Q1 of a.h: nothing is changed, expected [-what is removed-] or {+is added+}");
  }
  EXPECT_NO_THROW((void)patched_as("Q1 | return [-n-]{+0+} + 1\nQ2 | return n + [-1-]{+0+}"));
  EXPECT_EQ(complaint_of("Q1 | return [-n-]{+0+} + 1\nQ2 | return [-n + 1-]{+0+};"),
            "list:6: Q2 of a.h: another row changes that text");
  EXPECT_EQ(complaint_of("columns: id txt"), "list:5: txt is no column");
  EXPECT_EQ(complaint_of("Q1"), "list:5: expected a file and a text");
}

TEST(Patch, IsARowOfAListWithShortNamesAndWhiteSpace) {
  const std::vector<Patch> rows = read_patches("list",
                                               "# A comment\nlaw: L1\nfile short: a/b.py\n"
                                               "columns: id file sentence\nQ1 | short\n"
                                               "| What is | wrong.\n    [-x-]\n\n   y\n")
                                      .rows;
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.front().place, "list:5");
  EXPECT_EQ(rows.front().law, "L1");
  EXPECT_EQ(rows.front().file, "a/b.py");
  EXPECT_EQ(rows.front().sentence, "What is | wrong.");
  EXPECT_EQ(rows.front().text, "  [-x-]\n\n y");
  EXPECT_EQ(changed_text(rows.front(), "  x\n\n y\n x\n\n y"), "  \n\n y\n x\n\n y");
}

struct Complaint {
  int code = 0;
  std::string said;  // the first line of complaint
};

// The program of the build, on trees from which a text has gone.
TEST(PatchSources, EndsTheBuildWithALineThatNamesTheRow) {
  const auto root = std::filesystem::path(testing::TempDir()) / "kvproof-patch-sources";
  for (const PatchedFolder& folder : patched_folders()) {
    const std::string& name = folder.name;
    std::filesystem::remove_all(root);
    const auto from = root / name;
    const auto run = [&](const std::string& files) {
      const std::string command = KVPROOF_BINARY_DIR "/bin/kvproof_patch_sources " + name + " " +
                                  from.string() + " " + (root / "to").string() + " " + files +
                                  " 2> " + (root / "said").string();
      Complaint out{WEXITSTATUS(std::system(command.c_str())), {}};
      std::ifstream in(root / "said");
      std::getline(in, out.said);
      return out;
    };
    std::set<std::string> files;
    std::string all;
    for (const Patch& row : folder.rows) {
      const std::string& file = row.file;
      if (!files.insert(file).second) continue;
      all += file + " ";
      std::filesystem::create_directories((from / file).parent_path());
      std::filesystem::copy_file(KVPROOF_SOURCE_DIR "/" + name + "/" + file, from / file);
    }
    const Complaint good = run(all);
    EXPECT_EQ(good.code, 0) << good.said;
    const Patch &first = folder.rows.front(), &last = folder.rows.back();
    EXPECT_EQ(run("nothing.h").said, say(first.place, ": ", first.id, " of ", first.file,
                                         ": there is no such file, expected one of those copied"));
    std::ofstream(from / last.file) << "// empty\n";
    const Complaint bad = run(all);
    EXPECT_EQ(bad.code, 2);
    EXPECT_TRUE(holds(bad.said, say(" of ", last.file, ": the text is found 0 times")));
  }
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace kvproof::properties
