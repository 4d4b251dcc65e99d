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
  awk -f "$script" "$work"/a.* >"$work/table" || code=$?
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
ptxas info    : Compiling entry function '$name' for '${architecture:-sm_90a}'
ptxas info    : Function properties for $name
    0 bytes stack frame, $spilled bytes spill stores, 0 bytes spill loads
ptxas info    : Used 96 registers, used 1 barriers, 1056 bytes smem
END
}
copy='cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;'
product='mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};'
mma=_ZN7kvproof7kernels20attention_mma_kernelINS0_4Bf16ELi64ELb1EEEvi

kernel $mma 0 "$copy" "$product"
expect 0 'attention_mma_kernel<Bf16, 64, soft cap>  *96  *0  *1056  *1  *1$' 'a good kernel'
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

box='cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1];'
group='wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, p, 1, 1, 0, 0; }'
wgmma=_ZN7kvproof7kernels22attention_wgmma_kernelINS0_4Bf16ELi128ELb1EEEvi
hint() { echo "ptxas info    : $*" >>"$work/a.log"; }
kernel $wgmma 0 "$box" "$group"
expect 0 'attention_wgmma_kernel<Bf16, 128, soft cap>  *96  *0  *1056  *1  *1$' 'a good group'
hint "(C7519) warpgroup.arrive is injected in around line 8 by compiler in function '$wgmma'"
expect 0 'attention_wgmma_kernel' 'a fence that the compiler adds'
hint "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to" \
  "wgmma pipeline crossing function boundary in the function '$wgmma'"
expect 1 '^attention_wgmma_kernel<Bf16, 128, soft cap>: (C7510).* serialized.*boundary$' \
  'products one after the other'
kernel $wgmma 0 "$box" "$group"
hint "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count."
expect 1 "^a.log: (C7508).*'setmaxnreg' ignored" 'registers that are not moved'
kernel $wgmma 0 "$box" "$group"
hint "(C7517) warpgroup.wait is injected in around line 113 by compiler to allow use of registers" \
  "defined by GMMA in function '$wgmma'"
expect 1 '(C7517) warpgroup.wait is injected' 'a wait that the source lacks'
kernel $wgmma 4 "$box" "$group"
expect 1 'spills 4 bytes' 'a spill of a group'
kernel $wgmma 0 "$copy" "$group"
expect 0 'attention_wgmma_kernel' 'copies of 16 bytes to a group'
kernel $wgmma 0 "$group"
expect 1 'no tensor copy' 'a group without asynchronous copies'
kernel $wgmma 0 "$box" "$product"
expect 1 'no wgmma' 'a group that multiplies warp by warp'
architecture=sm_80
kernel $wgmma 0 'trap;'
expect 0 'attention_wgmma_kernel' 'a trap elsewhere'
architecture=
kernel $wgmma 0 'trap;'
expect 1 'no wgmma' 'a trap on Hopper'
kernel $wgmma 0 "$box" "$group"
code() {  # code <kernel> <instruction>...
  printf '\t.section\t.text.%s,"ax",@progbits\n' "$1" >"$work/a.sass"
  shift
  printf '  /*0*/ %s R24 ;\n' "$@" >>"$work/a.sass"
}
one='WARPGROUP.DEPBAR.LE gsb0, 0x1' all='WARPGROUP.DEPBAR.LE gsb0, 0x0'
code $wgmma HGMMA.64x128x16.F32.BF16 "$one" MUFU.EX2 "$all"
expect 0 'attention_wgmma_kernel' 'a group in the machine code'
code $wgmma HGMMA.64x128x16.F32.BF16 "$one" "$all" MUFU.EX2
expect 1 'no exponential while a product runs' 'a softmax behind the products'
code $wgmma HMMA.16816.F32.BF16
expect 1 'no HGMMA' 'machine code of warps'
code another_kernel HGMMA.64x128x16.F32.BF16
expect 1 'no HGMMA' 'machine code of another kernel'
rm "$work/a.sass"

: >"$work/a.ptx"
expect 1 'not in the PTX' 'no PTX'
: >"$work/a.log"
expect 1 'no kernel in the log' 'no kernel'
exit $failed
