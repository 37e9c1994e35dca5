/* Include this header first in a file that is compiled once for each instruction set. setup.py passes the name of the
 * set, for example -DI8_SET=avx2. If the target lacks the set, or the package has no kernels for it, the header leaves
 * I8_LANES undefined. */
#include "isa/names.h"

#include I8_STRING(isa/I8_SET.h)
