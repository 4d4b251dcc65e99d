// SPDX-License-Identifier: Apache-2.0
// The frames of the operations that a subject performs, whoever drives it.
#pragma once

#include <memory>

#include "properties/story/frame.h"
#include "reference/config.h"
#include "reference/subject.h"

namespace kvproof::properties {

/// A subject whose operations are read as frames. @param inner must be new
/// @param by_model it promises to answer as the model, which is asked beside it until they differ
[[nodiscard]] std::unique_ptr<Subject> with_frames(const CacheConfig& config,
                                                   std::unique_ptr<Subject> inner, FrameReader read,
                                                   bool by_model = false);

}  // namespace kvproof::properties
