#include "isa/names.h"

#ifdef I8_AARCH64
#include "isa/vectors_neon.h"

#include "gemm/saturating_table.h"
#endif
