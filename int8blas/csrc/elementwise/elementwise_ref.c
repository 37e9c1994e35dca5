#include "isa/names.h"

#include "isa/vectors_ref.h"

#include "elementwise/elementwise_table.h"
