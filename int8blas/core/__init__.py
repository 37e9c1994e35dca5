"""The foundation of all rooms: arrays, memory, threads, kernels. It imports no other room.

arrays          conversion of arguments to NumPy arrays, or an error; words has the texts of errors
results         new arrays for results, and views
cnumpy          the part of NumPy's C API that the package uses
parameters      numbers, scales and zero points as arguments
layouts, spatial    the order of dimensions of images and weights; kernels, strides, dilation and padding
kernels         the registry of instruction sets; the only module that links the kernels of csrc/
machine         the sizes of the caches and the number of cores, for plans; caches finds them
memory          memory for the duration of a call, and for arrays
split           division of work among threads
threads         the number of threads, and every parallel region
thread_setting  the results of num_threads and use_isa
calls           a sequence of calls of Python functions, with values in slots
turns           turns of threads that run such sequences
file            saving and loading values of registered classes; streams has file objects
verbose         the lines of INT8BLAS_VERBOSE; traced writes the lines about functions of arrays
config          show_config; signatures of compiled classes; include, the folder of the C header
"""
