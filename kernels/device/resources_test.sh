#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The table of kernel resources accepts what holds and refuses each thing it must: on made-up text.
#   resources_test.sh <path of resources.awk>
set -eu
script=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

failed=0
# expect <exit code> <text of the table> <what>
expect() {
  code=0
  awk -f "$script" "$work/a.ptx" "$work/a.log" >"$work/table" || code=$?
  if [ "$code" != "$1" ] || ! grep -q "$2" "$work/table"; then
    echo "$3: exit code $code, expected $1 and '$2' in:"
    cat "$work/table"
    failed=1
  fi
}
# kernel <name> <bytes spilled> <PTX line>...
kernel() {
  name=$1 spilled=$2
  shift 2
  {
    echo ".visible .entry $name("
    for line do echo "  $line"; done
  } >"$work/a.ptx"
  cat >"$work/a.log" <<END
ptxas info    : Compiling entry function '$name' for 'sm_90a'
ptxas info    : Function properties for $name
    0 bytes stack frame, $spilled bytes spill stores, 0 bytes spill loads
ptxas info    : Used 96 registers, used 1 barriers, 1056 bytes smem
END
}
copy='cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;'
product='mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};'
mma=_ZN7kvproof7kernels20attention_mma_kernelINS0_4Bf16ELi64ELb1EEEvi

kernel $mma 0 "$copy" "$product"
expect 0 'attention_mma_kernel<Bf16, 64, many rows>  *96  *0  *1056  *1  *1$' 'a good kernel'
kernel $mma 8 "$copy" "$product"
expect 1 'spills 8 bytes' 'a spill'
kernel $mma 0 'cp.async.ca.shared.global [%r1], [%rd1], 4, %r2;' "$product"
expect 1 'no asynchronous copy of 16 bytes' 'copies of 4 bytes'
kernel $mma 0 "$copy"
expect 1 'no matrix multiply' 'no matrix multiply'
kernel _ZN1a15multiply_kernelEv 0 "$product"
expect 0 'multiply_kernel  *96' 'a multiply without copies'
kernel _ZN1a15multiply_kernelEv 0 "$copy"
expect 1 'no matrix multiply' 'a ceiling without its instruction'
kernel _ZN1a18copy_vector_kernelEv 0 'ld.global.nc.v4.u32 {%r1}, [%rd1];' \
  'st.global.v4.u32 [%rd1], {%r1};'
expect 0 'copy_vector_kernel  *96' 'wide reads and writes'
kernel _ZN1a18copy_vector_kernelEv 0 'ld.global.nc.u32 %r1, [%rd1];' \
  'st.global.v4.u32 [%rd1], {%r1};'
expect 1 'does not read and write 16 bytes' 'narrow reads'
: >"$work/a.ptx"
expect 1 'not in the PTX' 'no PTX'
: >"$work/a.log"
expect 1 'no kernel in the log' 'no kernel'
exit $failed
