#include "isa/names.h"

#include "isa/vectors_ref.h"

#include "gemm/packing_table.h"
