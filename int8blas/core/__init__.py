"""The foundation of all rooms: arrays, memory, threads, kernels. It imports no other room.

arrays          NumPy arrays from arguments, or an error; words, the texts of errors; results, new arrays
cnumpy          our part of NumPy's C API, declared once
parameters      numbers, scales and zero points as arguments; layouts, spatial: shapes of images and of weights
kernels         the registry of instruction sets; the one module that links the kernels of csrc/
machine         the sizes of the caches and the number of cores, which plans are made for; caches, how they are found
memory          memory for the length of a call; split, a share of work for each thread
threads         the number of threads, and every parallel region; thread_setting, the objects of num_threads, use_isa
calls           many calls of Python functions in a row, between slots; turns, threads that make such calls at once
file            saving and loading values of registered classes; streams, file objects
verbose         the lines of INT8BLAS_VERBOSE; traced, the lines about functions of arrays
config          show_config; signatures of compiled classes; include, the folder of the C header
"""
