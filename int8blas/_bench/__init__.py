"""``python -m int8blas bench``, and code that it shares with the benchmarks of a checkout.

The modules, each with the modules that it calls::

    command       options, the process that measures, the order of a run
      |
      +-> contest       contestants bound to a problem and checked; one interleaved run
      |     +-> timing      the order of the samples, and their times
      +-> peers         int8blas, float32 BLAS, and int8 libraries that are installed
      +-> shapes        classes of problems, and their operands
      +-> peak          the machine's own limits: multiply-adds and streaming reads
      +-> results       ratios and percentages from times, by problem and by class
      +-> report, plot, progress     tables, figures, a bar
      +-> environment   the machine and the software of a measurement
      +-> load          the share of the CPUs that other processes and the hypervisor take
"""
