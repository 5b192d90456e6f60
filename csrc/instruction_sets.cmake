# How the kernels are compiled: ONEGLANCE_KERNEL_FLAGS for all sources, and what each instruction
# set needs for its own.

# The bits are part of the interface: every float operation is one IEEE operation, so that each
# instruction set gives the same ones. A compiler may not contract a * b + c.
set(ONEGLANCE_KERNEL_FLAGS -O3 -ffp-contract=off -fno-fast-math -Wall -Wextra)

set(avx2 -mavx2 -mf16c)
# Wide vectors everywhere: a load of 64 bytes has to wait for two stores of 32.
set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
    -mprefer-vector-width=512)
set(neon -march=armv8.2-a+dotprod)

# On processors of another kind the file is empty. Apple's compiler may build for several at once,
# and its own minimum has the dot product.
if(APPLE)
  list(TRANSFORM avx2 PREPEND "SHELL:-Xarch_x86_64 ")
  list(TRANSFORM avx512 PREPEND "SHELL:-Xarch_x86_64 ")
  set(neon)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(neon)
else()
  set(avx2)
  set(avx512)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(neon)
  endif()
endif()
foreach(isa avx2 avx512 neon)
  set_source_files_properties("${CMAKE_CURRENT_LIST_DIR}/isa_${isa}.cpp"
                              PROPERTIES COMPILE_OPTIONS "${${isa}}")
endforeach()
