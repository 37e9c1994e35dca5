#include "isa/names.h"

#ifdef I8_AARCH64
#include "isa/vectors_neon.h"

#include "gemm/packing_table.h"
#endif
