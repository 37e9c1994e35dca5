#include "isa/names.h"

#include "isa/vectors_ref.h"

#include "stage/stage_table.h"
