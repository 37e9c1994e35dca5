#include "isa/names.h"

#ifdef I8_X86_64
I8_TARGET_BEGIN(I8_AVX512)
#include "isa/vectors_avx512.h"

#include "neighbors/neighbors_table.h"
I8_TARGET_END
#endif
