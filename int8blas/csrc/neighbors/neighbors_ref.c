#include "isa/names.h"

#include "isa/vectors_ref.h"

#include "neighbors/neighbors_table.h"
