#include "isa/names.h"

#include "isa/vectors_ref.h"

#include "recurrent/recurrent_table.h"
