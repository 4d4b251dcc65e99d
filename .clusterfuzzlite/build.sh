#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds every fuzz target of CMake, with its corpus, where ClusterFuzzLite and OSS-Fuzz look for
# them. The builder sets CXX, CXXFLAGS (which carry the sanitizer), LIB_FUZZING_ENGINE, SRC, WORK
# and
# OUT.
set -eu

build=$WORK/kvproof
cmake -S "$SRC/kvproof" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DKVPROOF_TESTS=OFF \
  -DKVPROOF_WERROR=OFF -DKVPROOF_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" -DOPENSSL_USE_STATIC_LIBS=TRUE
cmake --build "$build" --target kvproof_fuzz
for program in "$build"/fuzz/fuzz_*; do
  name=$(basename "$program")
  cp "$program" "$OUT/"
  zip -q -j "$OUT/${name}_seed_corpus.zip" "$SRC/kvproof/properties/sources/fuzz/corpus/${name#fuzz_}"/*
done
