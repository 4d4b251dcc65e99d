// SPDX-License-Identifier: Apache-2.0
// A library that exports only a part of the header, for the tests.
#include "properties/engines/kit/kvproof_subject.h"

uint32_t kvproof_subject_abi() { return KVPROOF_SUBJECT_ABI; }
