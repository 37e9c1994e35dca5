#include "isa/names.h"

#ifdef I8_X86_64
#include "isa/avx512bw.h"

#include "gemm/tiles_table.h"
I8_TARGET_END
#endif
