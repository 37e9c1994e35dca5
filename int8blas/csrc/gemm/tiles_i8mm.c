#include "isa/names.h"

#ifdef I8_AARCH64
#include "isa/i8mm.h"

#include "gemm/tiles_table.h"
I8_TARGET_END
#endif
