# SPDX-License-Identifier: Apache-2.0
# What every CUDA kernel takes of the machine, as a table, from the compiler's own words: PTX, the
# log of ptxas -v and, where it was disassembled, the machine's code. Exit code 1 where a kernel
# breaks a rule:
#   any but a general kernel    spills registers to memory
#   any                         ptxas ignores its setmaxnreg, lets its wgmma wait for each other, or
#                               adds a wait that the source lacks
#   ..._mma_kernel              has no asynchronous copy of 16 bytes, or no matrix multiply
#   ..._wgmma_kernel            the same of tensor copies and wgmma, for sm_90a; elsewhere a trap
#   attention_wgmma_kernel      has no exponential between the waits for its two products
#   multiply_kernel             has no matrix multiply
#   ..._vector_kernel           does not read and write 16 bytes at a time
#   one of the log              is not in the PTX, or the log names none
# usage: awk -f resources.awk <ptx file>... <ptxas log>... [<file of nvdisasm>...]

function entry_of(line) {
  sub(/.*\.entry /, "", line)
  sub(/[^A-Za-z0-9_$].*/, "", line)
  return line
}

# _ZN7kvproof7kernels11copy_kernelINS0_4Bf16ELi64ELb1EEEv -> copy_kernel<Bf16, 64, soft cap>
function readable(name,    out, rest, arguments, word) {
  if (!match(name, /[0-9][a-z_]+_kernel/)) return name
  out = substr(name, RSTART + 1, RLENGTH - 1)
  rest = substr(name, RSTART + RLENGTH)
  if (rest !~ /^I/) return out
  arguments = rest ~ /LatentTile/ ? "latent" : ""
  while (match(rest, /^[^E]*(Bf16|Fp16|Fp8E[45]M[32]|PagedKv|ContiguousKv|Li[0-9]+|Lb[01])/)) {
    word = substr(rest, RSTART, RLENGTH)
    rest = substr(rest, RSTART + RLENGTH)
    if (word ~ /Lb1$/) word = "soft cap"
    else if (word ~ /Lb0$/) word = "no cap"
    sub(/^.*Li/, "", word)
    if (match(word, /(Bf16|Fp16|Fp8E[45]M[32]|PagedKv|ContiguousKv)$/)) word = substr(word, RSTART)
    arguments = arguments (arguments == "" ? "" : ", ") word
    if (rest ~ /^E+v/) break
    sub(/^E+/, "", rest)
  }
  return out "<" arguments ">"
}

function broken(what) {
  failed = 1
  problems = problems what "\n"
}

/\.entry / { ptx = entry_of($0); in_ptx[ptx] = 1 }
/cp\.async\.c[ag]\.shared\.global .*, 16,/ { copies[ptx]++ }
/cp\.async\.bulk\.tensor\./ { copies[ptx]++ }
/mma\.sync\.aligned\.m16n8k16/ { products[ptx]++ }
/wgmma\.mma_async\./ { group_products[ptx]++ }
/ld\.global[.a-z]*\.v4\.[a-z]*32/ { reads[ptx]++ }
/st\.global[.a-z]*\.v4\.[a-z]*32/ { writes[ptx]++ }

/Potential Performance Loss|warpgroup\.wait is injected/ {
  who = FILENAME  # some complaints name no kernel
  sub(/.*\//, "", who)
  if (match($0, /function '[^']*'/)) who = readable(substr($0, RSTART + 10, RLENGTH - 11))
  sub(/^[^(]*/, "")
  sub(/,? in (the )?function '.*/, "")
  broken(who ": " $0)
}
/Compiling entry function/ {
  split($0, words, "'")
  kernel = words[2]
  is_hopper[kernel] = words[4] == "sm_90a"
  order[++count] = kernel
}
/bytes spill stores/ && kernel != "" {
  spilled = 0
  if (match($0, /[0-9]+ bytes spill stores/)) spilled += substr($0, RSTART, RLENGTH) + 0
  if (match($0, /[0-9]+ bytes spill loads/)) spilled += substr($0, RSTART, RLENGTH) + 0
  spills[kernel] = spilled
}
/Used [0-9]+ registers/ && kernel != "" {
  match($0, /Used [0-9]+ registers/)
  registers[kernel] = substr($0, RSTART + 5, RLENGTH - 5) + 0
  shared[kernel] = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH) + 0 : 0
  kernel = ""
}

/\.section[ \t]+\.text\./ {
  disassembled = 1
  code = $0
  sub(/.*\.text\./, "", code)
  sub(/,.*/, "", code)
}
/ HGMMA\./ { group_code[code]++ }
/ WARPGROUP\.DEPBAR\./ { is_running = / gsb0, 0x1/ }
/ MUFU\.EX2/ && is_running { hidden[code]++ }

# A kernel that multiplies by groups of four warps.
function check_groups(k, name) {
  if (!copies[k]) broken(name ": no tensor copy, nor a copy of 16 bytes")
  if (!group_products[k]) broken(name ": no wgmma")
  if (disassembled && !group_code[k]) broken(name ": no HGMMA in the machine's code")
  else if (disassembled && k ~ /attention/ && !hidden[k])
    broken(name ": no exponential while a product runs")
}

END {
  if (count == 0) broken("no kernel in the log of ptxas")
  printf "%-58s %9s %7s %7s %8s %8s\n", "kernel", "registers", "spilled", "shared", "async 16", "matrix"
  for (n = 1; n <= count; n++) {
    k = order[n]
    name = readable(k)
    printf "%-58s %9d %7d %7d %8d %8d\n", name, registers[k], spills[k], shared[k], copies[k],
           products[k] + group_products[k]
    if (!(k in in_ptx)) broken(name ": not in the PTX")
    if (!(k in registers)) broken(name ": the log does not say what it uses")
    if (spills[k] > 0 && k !~ /_general_kernel/) broken(name ": spills " spills[k] " bytes of registers")
    if (k ~ /_wgmma_kernel/ && is_hopper[k]) check_groups(k, name)
    if (k ~ /_mma_kernel/ && !copies[k]) broken(name ": no asynchronous copy of 16 bytes")
    if (k ~ /(_mma|multiply)_kernel/ && !products[k]) broken(name ": no matrix multiply")
    if (k ~ /_vector_kernel/ && !(reads[k] && writes[k])) {
      broken(name ": does not read and write 16 bytes at a time")
    }
  }
  printf "%s", problems
  exit failed
}
