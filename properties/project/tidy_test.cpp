// SPDX-License-Identifier: Apache-2.0
// The source tree obeys its rules, and each rule refuses what it must.
#include "properties/project/tidy.h"

#include <gtest/gtest.h>

#include <regex>

namespace kvproof::properties::tidy {
namespace {

const Files& tree() {
  static const Files files = read_tree(KVPROOF_SOURCE_DIR);
  return files;
}

std::string joined(const Complaints& complaints) {
  std::string text;
  for (const std::string& complaint : complaints) text += "  " + complaint + "\n";
  return text;
}

/// The text of one file of the tree; empty if there is none.
std::string text_of(std::string_view path) {
  for (const File& file : tree()) {
    if (file.path == path) return file.text;
  }
  return "";
}

std::string repeated(const std::string& line, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += line;
  return text;
}

#define EXPECT_COMPLAINT(complaints, part) \
  EXPECT_TRUE(std::regex_search(joined(complaints), std::regex(part))) << joined(complaints)
#define EXPECT_NONE(complaints) EXPECT_EQ(joined(complaints), "")

constexpr char kOpening[] = "// SPDX-License-Identifier: Apache-2.0\n// What this is.\n";

// ---- the tree -------------------------------------------------------------------------------

TEST(Tree, IsRead) {
  EXPECT_GT(tree().size(), 50u);
  for (const char* path : {"CMakeLists.txt", "kvproof", ".ci/run", ".cmake/targets.cmake",
                           "reference/ids.h", "properties/project/tidy_test.cpp"}) {
    EXPECT_NE(text_of(path), "") << path;
  }
}

TEST(Tree, IncludesOnlyFoldersAbove) { EXPECT_NONE(check_layers(tree())); }
TEST(Tree, KeepsItsSizes) { EXPECT_NONE(check_sizes(tree())); }
TEST(Tree, OpensWithLicenceAndSentence) { EXPECT_NONE(check_openings(tree())); }
TEST(Tree, HasNoDeadFiles) { EXPECT_NONE(check_no_dead_files(tree())); }
TEST(Tree, HasNoUnfinishedWork) { EXPECT_NONE(check_words(tree())); }
TEST(Tree, RegistersInListsOnly) { EXPECT_NONE(check_lists(tree())); }

TEST(Tree, HasOneVersion) {
  std::smatch project;
  const std::string cmake = text_of("CMakeLists.txt");
  ASSERT_TRUE(std::regex_search(cmake, project, std::regex(R"(project\(kvproof VERSION (\S+))")));
  EXPECT_NE(text_of("kvproof").find("echo \"kvproof " + project[1].str() + "\""), std::string::npos)
      << "the launcher's --version differs from the project's " << project[1];
}

// ---- what each rule refuses -------------------------------------------------------------------

TEST(Layers, RefuseAnIncludeFromAbove) {
  EXPECT_COMPLAINT(check_layers({{"reference/a.h", "#include \"optimized/b.h\"\n"}}),
                   "reference/a.h:1: includes optimized/b.h");
  EXPECT_COMPLAINT(check_layers({{"kernels/op/a.cu", "\n#  include <bench/b.h>\n"}}),
                   "kernels/op/a.cu:2: includes bench/b.h");
  EXPECT_NONE(check_layers({{"optimized/a.cpp",
                             "#include \"optimized/b.h\"\n"
                             "#include \"reference/c.h\"\n#include <map>\n"}}));
}

TEST(Layers, RefuseARelativeIncludeAndAnUnknownFolder) {
  EXPECT_COMPLAINT(check_layers({{"bench/a.h", "#include \"b.h\"\n"}}), "quotes b.h");
  EXPECT_COMPLAINT(check_layers({{"bench/a.h", "#include \"../reference/b.h\"\n"}}), "quotes");
  EXPECT_COMPLAINT(check_layers({{"utilities/a.h", ""}}), "none of the project's folders");
}

TEST(Sizes, RefuseAWideLine) {
  EXPECT_COMPLAINT(check_sizes({{"bench/a.py", "\n" + std::string(101, 'x')}}), "a.py:2: 101 col");
  EXPECT_NONE(check_sizes({{"bench/a.py", std::string(100, 'x')}}));
  EXPECT_NONE(check_sizes({{"bench/a.py", repeated("\xC3\xA9", 100)}}));  // 100 characters
}

TEST(Sizes, RefuseALongFile) {
  EXPECT_NONE(check_sizes({{"bench/a.h", repeated("\n", 200)}}));
  EXPECT_COMPLAINT(check_sizes({{"bench/a.h", repeated("\n", 201)}}), "201 lines");
  EXPECT_NONE(check_sizes({{"bench/a.cpp", repeated("\n", 400)}}));
  EXPECT_NONE(check_sizes({{"properties/laws.h", repeated("\n", 400)}}));  // a list
  EXPECT_COMPLAINT(check_sizes({{"properties/laws.h", repeated("\n", 401)}}), "401 lines");
  EXPECT_COMPLAINT(check_sizes({{"bench/a.cpp", repeated("\n", 401)}}), "401 lines");
}

TEST(Sizes, RefuseALongFunction) {
  const std::string body = repeated("  step();\n", 58);
  EXPECT_NONE(check_sizes({{"bench/a.cpp", "int f(int a) {\n" + body + "}\n"}}));
  const std::string longer = body + "  step();\n";
  for (const std::string head :
       {"int f(int a) {\n", "TEST(A, B) {\n", "template <class T>\nint C<T>::f(T a,\n  T b) {\n",
        "static auto f()\n    -> int {\n", "C::C(int a)\n    : a_(a), b_({1}) {\n"}) {
    EXPECT_COMPLAINT(check_sizes({{"bench/a.cpp", head + longer + "}\n"}}),
                     "a.cpp:1: a function of 6");
  }
  const std::string inside = repeated("    step();\n", 59);
  EXPECT_COMPLAINT(
      check_sizes({{"bench/a.h", "class A {\n public:\n  int f() {\n" + inside + "  }\n};\n"}}),
      "a.h:3: a function of 61");
}

TEST(Sizes, TakeNoTypeTableOrNamespaceForAFunction) {
  const std::string body = repeated("  int a = f(1);\n", 80);
  const std::string shorter = "  int f() {\n    g();\n  }\n";
  EXPECT_NONE(check_sizes({{"bench/a.h", "class A {\n protected:\n" + shorter + body + "};\n"}}));
  for (const std::string head :
       {"namespace a {\n", "struct A {\n", "class A : public B<int()> {\n",
        "template <class T>\nstruct A {\n", "constexpr A kRows[] = {\n", "enum class A {\n"}) {
    EXPECT_NONE(check_sizes({{"bench/a.h", head + body + "};\n"}}));
  }
}

TEST(Openings, RefuseAMissingLicenceOrSentence) {
  EXPECT_NONE(check_openings({{"bench/a.h", kOpening}}));
  EXPECT_COMPLAINT(check_openings({{"bench/a.h", "#pragma once\n"}}), "a.h:1: does not open");
  EXPECT_COMPLAINT(check_openings({{"bench/a.h", ""}}), "a.h:1: does not open");
  EXPECT_COMPLAINT(
      check_openings({{"bench/a.h", "// SPDX-License-Identifier: Apache-2.0\n#pragma once\n"}}),
      "a.h:2: does not say");
  const std::string licence = "// SPDX-License-Identifier: Apache-2.0\n";
  EXPECT_NONE(check_openings({{"bench/a.cpp", licence + "#include \"bench/a.h\"\n"}}));
  EXPECT_COMPLAINT(check_openings({{"bench/a.cpp", licence + "#include \"bench/b.h\"\n"}}),
                   "a.cpp:2: does not say");
  EXPECT_COMPLAINT(check_openings({{"bench/a.sh", "#!/bin/sh\n# Runs.\n"}}), "a.sh:2: does not");
  EXPECT_NONE(
      check_openings({{"a.py", "# SPDX-License-Identifier: Apache-2.0\n\"\"\"Draws.\"\"\"\n"}}));
  EXPECT_NONE(check_openings(
      {{"bench/a.sh", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n# Runs.\n"}}));
}

TEST(DeadFiles, RefuseAnUnregisteredSource) {
  const File build = {"bench/CMakeLists.txt", "target_sources(x PRIVATE a.cpp sub/c.cpp)"};
  EXPECT_NONE(check_no_dead_files({build, {"bench/a.cpp", ""}, {"bench/sub/c.cpp", ""}}));
  EXPECT_COMPLAINT(check_no_dead_files({build, {"bench/b.cpp", ""}}), "bench/b.cpp");
  EXPECT_COMPLAINT(check_no_dead_files({build, {"bench/c.cpp", ""}}), "bench/c.cpp");
  EXPECT_COMPLAINT(check_no_dead_files({build, {"bench/sub/a.cpp", ""}}), "bench/sub/a.cpp");
  EXPECT_COMPLAINT(check_no_dead_files({build, {"optimized/a.cpp", ""}}), "optimized/a.cpp");
}

TEST(DeadFiles, RefuseAHeaderThatNobodyIncludes) {
  const File header = {"bench/a.h", ""};
  EXPECT_COMPLAINT(check_no_dead_files({header}), "bench/a.h:1: is included by no file");
  EXPECT_NONE(check_no_dead_files({header,
                                   {"bench/b.py", "#include \"bench/a.h\""},
                                   {"reports/run.sh", "b.py"},
                                   {"CMakeLists.txt", "run.sh"}}));
}

TEST(DeadFiles, RefuseAScriptThatNobodyNames) {
  EXPECT_COMPLAINT(check_no_dead_files({{"reports/a.py", "a.py"}}), "reports/a.py");
  EXPECT_COMPLAINT(check_no_dead_files({{"reports/a.py", ""}, {"CMakeLists.txt", "data.py"}}),
                   "reports/a.py");
  EXPECT_NONE(check_no_dead_files({{"reports/a.py", ""}, {"CMakeLists.txt", "reports/a.py"}}));
}

TEST(Words, RefuseUnfinishedWork) {
  for (const std::string word : {"// TO"
                                 "DO: it",
                                 "int a;  // FIX"
                                 "ME",
                                 "good for"
                                 " now.",
                                 "a st"
                                 "ub of it",
                                 "not"
                                 " implemented",
                                 "#if "
                                 "0"}) {
    EXPECT_COMPLAINT(check_words({{"bench/a.h", "\n" + word + "\n"}}), "a.h:2:") << word;
  }
  EXPECT_NONE(check_words({{"bench/a.h", "mkstemp(XXXXXX), stubborn, HACKING, for nowhere"}}));
}

Files lists_with(const std::string& laws, const File& other) {
  const std::string opening = "// SPDX-License-Identifier: Apache-2.0\n// THE LIST of things.\n";
  Files files = {other, {"properties/laws.h", opening + laws}};
  for (const List& list : kLists) {
    if (list.path == "properties/laws.h") continue;
    files.push_back({std::string(list.path),
                     opening + "constexpr Row" + std::to_string(files.size()) +
                         " kOther[] = {\n  {\"" + std::string(list.path) + "\", 1},\n};\n"});
  }
  return files;
}

constexpr char kTwoLaws[] =
    "inline constexpr Row kLaws[] = {\n  {\"I1\", \"first\", {1}},\n"
    "  // {\"I0\", \"old\"}\n  {\"I2\",\n   \"a \\\" { quote\"},\n};\n// {\"I3\"}\n";

TEST(Lists, ReadRowNames) {
  EXPECT_EQ(row_names(kTwoLaws), (std::vector<std::string>{"I1", "I2"}));
  EXPECT_TRUE(row_names("int a;").empty());
}

TEST(Lists, AcceptAListThatIsAlone) {
  EXPECT_NONE(check_lists(lists_with(kTwoLaws, {"bench/a.cpp", "find_law(\"I1\")"})));
  const std::string apart = "\"I1\"" + repeated("\n", 20) + "\"I2\"";
  EXPECT_NONE(check_lists(lists_with(kTwoLaws, {"bench/a_test.cpp", apart})));
  EXPECT_NONE(
      check_lists(lists_with(kTwoLaws, {"bench/a.cpp", "for (const Row& law : kLaws) {}"})));
}

TEST(Lists, RefuseASecondList) {
  for (const std::string text :
       {"if (a == \"I1\") f();\nif (a == \"I2\") g();\n", "{\"I2\",\n\"I1\"}",
        "constexpr Row kMine[] = {x};", "std::array<Row, 1> mine{x};", "Row mine[1] = {x};",
        "const std::vector<const Row*> mine = {x};"}) {
    EXPECT_COMPLAINT(check_lists(lists_with(kTwoLaws, {"bench/a.cpp", text})), "bench/a.cpp:1:")
        << text;
  }
}

TEST(Lists, RefuseABrokenList) {
  const File none = {"bench/a.cpp", ""};
  EXPECT_COMPLAINT(check_lists(lists_with("", none)), "laws.h:1: holds no array");
  EXPECT_COMPLAINT(check_lists(lists_with("constexpr Row kLaws[] = {{\"I1\"}, {\"I1\"}};", none)),
                   "laws.h:1: names a row twice");
  EXPECT_COMPLAINT(check_lists({}), "properties/laws.h: is missing");
  Files silent = lists_with(kTwoLaws, none);
  silent[1].text = kOpening + std::string(kTwoLaws);
  EXPECT_COMPLAINT(check_lists(silent), "laws.h:2: does not say that it is THE LIST");
  EXPECT_COMPLAINT(check_lists(lists_with(kTwoLaws, {"bench/a.h", "//\n// THE LIST of more\n"})),
                   "bench/a.h:2: calls itself THE LIST");
}

}  // namespace
}  // namespace kvproof::properties::tidy
