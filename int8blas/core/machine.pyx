"""The machine: the sizes of its caches and the number of its cores. Caches determine the sizes of blocks, never
results."""

from int8blas.core.caches import found


def machine():
    """Return the machine of all plans as a dict: the bytes of its caches, and the number of its cores."""
    return {"l1": this_machine.l1, "l2": this_machine.l2, "l3": this_machine.l3, "cores": this_machine.cores}


def replace(l1, l2, l3, cores):
    """Plan for another machine in the whole process. This is for tests, and no other call may run at the same time."""
    this_machine.l1, this_machine.l2, this_machine.l3, this_machine.cores = l1, l2, l3, cores


replace(*found())
