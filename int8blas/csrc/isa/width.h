/* Include this header first in a file that is compiled once for each vector width. setup.py passes the name of the
 * width, for example -DI8_SET=avx2. If the target lacks the width, the header leaves I8_LANES undefined. */
#include "isa/names.h"

#include I8_STRING(isa/I8_PASTE(vectors, I8_SET).h)
