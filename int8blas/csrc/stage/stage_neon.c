#include "isa/names.h"

#ifdef I8_AARCH64
#include "isa/vectors_neon.h"

#include "stage/stage_table.h"
#endif
