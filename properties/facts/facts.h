// SPDX-License-Identifier: Apache-2.0
// How a numbered fact about the allocator becomes a test: FACT(07, What) { ... } runs its body on
// every implementation under every profile; `way` says which.
//
// The numbers are those of reference/vllm/v1.md, section 11. facts_test.cpp lists what is not
// tested, and why.
#pragma once

#include <gtest/gtest.h>

#include "properties/allocators/manager_driver.h"

#define FACT(number, what)                                            \
  void fact_##number##_##what(const ::kvproof::properties::Way& way); \
  TEST(Facts, Fact_##number##_##what) {                               \
    for (const auto& each_way : ::kvproof::properties::ways()) {      \
      SCOPED_TRACE(each_way.name());                                  \
      fact_##number##_##what(each_way);                               \
    }                                                                 \
  }                                                                   \
  void fact_##number##_##what(const ::kvproof::properties::Way& way)
