/* The first header of a file that is compiled once for each instruction set. setup.py names the set: -DI8_SET=avx2. If
 * the target lacks the set, or no kernels are written for the set, the header leaves I8_LANES undefined. */
#include "isa/names.h"

#include I8_STRING(isa/I8_SET.h)
