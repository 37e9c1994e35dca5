"""The machine: the sizes of its caches and the number of its cores. The sizes of caches determine the sizes of blocks,
but never change results."""

from int8blas.core.caches import found


def machine():
    """Return the machine of all plans as a dict: the bytes of its caches, and the number of its cores."""
    return {"l1": this_machine.l1, "l2": this_machine.l2, "l3": this_machine.l3, "cores": this_machine.cores}


def replace(l1, l2, l3, cores):
    """Make all plans of the process for another machine. Only tests call this function, while no other call runs."""
    this_machine.l1, this_machine.l2, this_machine.l3, this_machine.cores = l1, l2, l3, cores


replace(*found())
