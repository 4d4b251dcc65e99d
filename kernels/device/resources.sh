#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles every CUDA source for one architecture and checks what the kernels take of the machine.
#   resources.sh <repository> <architecture: 80, 90a> <folder to work in> <source.cu>...
# Exit codes: 0 holds, 1 a kernel breaks a rule of resources.awk or does not compile, 77 no nvcc.
set -eu
root=$1 architecture=$2 work=$3
shift 3
here=$(dirname "$0")

nvcc=${NVCC:-}
for candidate in nvcc /usr/local/cuda/bin/nvcc; do
  [ -n "$nvcc" ] || ! command -v "$candidate" >/dev/null 2>&1 || nvcc=$candidate
done
if [ -z "$nvcc" ]; then
  echo "skipped: no nvcc (Debian: nvidia-cuda-toolkit), so no CUDA source is compiled"
  exit 77
fi
disassembler=
for candidate in nvdisasm "$(dirname "$nvcc")/nvdisasm"; do
  [ -n "$disassembler" ] || ! command -v "$candidate" >/dev/null 2>&1 || disassembler=$candidate
done
[ -n "$disassembler" ] || echo "no nvdisasm, so nobody looks at the machine's code"
# The compiler of the device says it; for one architecture the host's side is compiled, too.
case $architecture in 80) kind=-c made=o ;; *) kind=-cubin made=cubin ;; esac
mkdir -p "$work"
rm -f "$work"/*.ptx "$work"/*.log "$work"/*.sass
for source do
  name=$(basename "$source" .cu)
  mkdir -p "$work/$name"
  if ! "$nvcc" -std=c++20 -O3 -I "$root" -gencode \
    "arch=compute_$architecture,code=sm_$architecture" -Xptxas -v --keep \
    --keep-dir "$work/$name" "$kind" "$source" -o "$work/$name/$name.$made" >"$work/$name.log" 2>&1
  then
    cat "$work/$name.log"
    echo "$source does not compile for sm_$architecture"
    exit 1
  fi
  mv "$work/$name"/*.ptx "$work/"
  if [ -n "$disassembler" ]; then "$disassembler" -c "$work/$name"/*.cubin >"$work/$name.sass"; fi
  rm -rf "${work:?}/$name"
done
"$nvcc" --version |
  sed -n "s/^Cuda compilation tools, release \([0-9.]*\).*/sm_$architecture, nvcc \1/p"
set -- "$work"/*.ptx "$work"/*.log
[ -z "$disassembler" ] || set -- "$@" "$work"/*.sass
awk -f "$here/resources.awk" "$@"
