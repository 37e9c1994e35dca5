"""The machine: the sizes of its caches and the number of its cores. Caches decide the sizes of blocks, never the
results."""

from int8blas.core.caches import found


def machine():
    """Return the machine that plans are made for, as a dict: bytes of its caches, and its cores."""
    return {"l1": this_machine.l1, "l2": this_machine.l2, "l3": this_machine.l3, "cores": this_machine.cores}


def replace(l1, l2, l3, cores):
    """Plan for another machine in the whole process, for tests; nothing else may run meanwhile."""
    this_machine.l1, this_machine.l2, this_machine.l3, this_machine.cores = l1, l2, l3, cores


replace(*found())
