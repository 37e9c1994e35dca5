"""The result of ``explain``, and its text."""

from collections.abc import Iterator
from dataclasses import dataclass

from int8blas.gemm.plan import paths

# The reason to choose each path, as explanations print it. Layers add their paths with `add_path`.
PATHS = {name: summary for name, summary, _ in paths()}
KERNEL_NAMES = {name for name, _, names_kernel in paths() if names_kernel}


def add_path(name: str, summary: str, names_kernel: bool) -> None:
    """Add a path of another room to the paths that an :class:`Explanation` can name."""
    PATHS[name] = summary
    if names_kernel:
        KERNEL_NAMES.add(name)


# The texts for the keys of Explanation.multiply_adds.
MULTIPLY_ADDS = {
    "widened": "widened to 16 bits",
    "outliers": "as a dense part and outliers",
    "pairs": "with two products added in 16 bits",
    "two groups": "with two groups of k added in 16 bits",
    "many groups": "with six groups of k or more added in 16 bits",
}


@dataclass(frozen=True)
class Explanation:
    """The plan of one product.

    Attributes
    ----------
    shape : tuple of int
        (M, N, K).
    path : str
        The way to compute the product, such as 'tiny', 'few_rows' or 'blocks'; ``str`` of the explanation gives the
        reason for it. For a convolution also 'lines' (windows of few channels), 'groups' (small groups of channels) or
        'depthwise' (single channels).
    isa : str
        The instruction set of the kernels.
    numerics : str
        'exact' or 'saturating'.
    tile : tuple of int
        Rows and columns of the largest kernel of the path.
    block : tuple of int, or None
        Rows, columns and k of a block, for the paths 'blocks' and 'triangle'.
    threads : int
        The number of threads that take part.
    thread_grid : tuple of int, or None
        The number of parts of the rows of C, and of the columns of C. The grid is None if each thread takes consecutive
        tiles, column by column, or if threads divide K.
    k_parts : int
        The number of parts of K, one for each thread: more than 1 if C has too few tiles for the threads and K is long.
    segments : int
        The number of segments of K, in all parts: more than `k_parts` if the sums of a part could exceed int32. Each
        segment is a separate product, which `path`, `tile` and `block` describe. The sums of segments are added in
        int64.
    max_threads : int
        The number of threads that could take part.
    workspace : int
        The bytes of memory that each thread uses during the call, on the paths 'blocks', 'lines', 'groups' and
        'depthwise'. The packed panels of a plain B, which all threads share, are not counted. On the path 'triangle'
        `workspace` includes shared memory.
    b_is_packed, a_in_place, a_shifted, b_shifted, wide_sums, may_widen : bool
        B was packed before; A is read in place, not packed; A is shifted by 128 to uint8; B is shifted by -128 to int8;
        sums are carried in int64; panels of B without a no-saturation proof are widened to 16 bits, unless they are
        split (on the path 'triangle' all panels are widened).
    transposed : bool
        The product is computed as C.T = B.T @ A.T. All attributes except `shape` describe this product.
    certified_panels : tuple of int, or None
        The number of panels of B with a no-saturation proof, and the number of all panels. The attribute is None if
        proofs do not matter or are unknown before the call.
    split_panels : tuple of int, or None
        The number of split panels of a packed B, and the number of all panels. A split panel is multiplied as a dense
        part with 16-bit sums, and as outliers. The attribute is None if no panel can be split.
    a_quantized : bool
        A has real numbers, which the call quantizes to 8 bits. The attributes describe the product of the 8-bit A.
    multiply_adds : dict of str to int, or None
        On a CPU without VNNI, the number of panels of B that each multiply-add takes. A panel counts once for each
        block of rows of A. The values of both operands decide between 'widened' (to 16 bits first), 'outliers' (a dense
        part and outliers), 'pairs' (sums of two products fit int16: one VPMADDUBSW), 'two groups' (the sums of two
        groups of four k fit int16) and 'many groups' (the sums of six or more groups fit int16). On the path 'triangle'
        the dict counts pairs of panels, if the range of A is small enough that no panel is widened. The attribute is
        None on other paths, and if the operands are unknown before the call, as in layers.
    copied : int
        The bytes of copies of A and B. An operand is copied before the product is planned if neither its rows nor its
        columns are contiguous. If the other operand has few rows or columns, the product instead reads the bytes
        between the elements, and the attribute counts copies of the other operand or of C. All other attributes, except
        `shape`, describe the product of the copies.
    """

    shape: tuple[int, int, int]
    path: str
    isa: str
    numerics: str
    tile: tuple[int, int]
    block: tuple[int, int, int] | None
    threads: int
    thread_grid: tuple[int, int] | None
    k_parts: int
    segments: int
    max_threads: int
    workspace: int
    b_is_packed: bool
    a_in_place: bool
    a_shifted: bool
    b_shifted: bool
    wide_sums: bool
    may_widen: bool
    transposed: bool
    certified_panels: tuple[int, int] | None
    split_panels: tuple[int, int] | None
    a_quantized: bool
    multiply_adds: dict[str, int] | None = None
    copied: int = 0

    @property
    def kernel(self) -> str:
        """Return the name of the main kernel, such as 'avx512vnni 8x48'."""
        kind = f" {self.path}" if self.path in KERNEL_NAMES else ""
        return f"{self.isa}{kind} {self.tile[0]}x{self.tile[1]}"

    def __str__(self) -> str:
        m, n, k = self.shape
        lines = [f"{m} x {n} x {k}: kernel {self.kernel}, {self.numerics}, path {self.path}: {PATHS[self.path]}"]
        if self.transposed:
            lines.append("  C.T = B.T @ A.T is computed, as C has few columns and A contiguous ones: A below is B.T")
        return "\n".join([*lines, *self._blocks(), *self._operands(), *self._multiply_adds(), self._threads()])

    def _blocks(self) -> Iterator[str]:
        """Describe the blocks, and how operands are packed."""
        if self.block is None:
            return
        rows, columns, k = self.block
        kib = -(-self.workspace // 1024)
        yield f"  blocks of {rows} rows, {columns} columns, {k} k; {kib} KiB of workspace a thread"
        if self.path == "triangle":
            yield "  A is packed once, as B is, for both operands"
        else:
            yield "  B is packed already" if self.b_is_packed else "  B is packed during the call"
        if self.a_in_place:
            yield "  A is read in place: it is uint8 with contiguous rows"
        elif self.path != "triangle":
            yield "  A is packed block by block"

    def _operands(self) -> Iterator[str]:
        """Describe the conversions of the operands and of the sums."""
        if self.copied:
            yield f"  operands without contiguous rows or columns are copied first: {-(-self.copied // 1024)} KiB"
        if self.a_quantized:
            yield "  A is real numbers, which are quantized to 8 bits first: one image, or all images, at a time"
        if self.a_shifted:
            yield "  A is int8: one operand is shifted by 128, and sums of the other operand compensate the shift"
        if self.b_shifted:
            yield "  B is uint8: shifted by -128 unless A is int8 and read in place"
        if self.wide_sums:
            pieces = "blocks" if self.segments == 1 else f"{self.segments} segments of k"
            yield f"  sums of this K could exceed int32: the sums of {pieces} are added in int64"

    def _multiply_adds(self) -> Iterator[str]:
        """Describe the multiply-adds of a CPU without dot products."""
        missing = "dot product" if self.isa == "neon" else "VNNI"
        counts = self.multiply_adds or {}
        if counts and self.path == "triangle":
            way = MULTIPLY_ADDS[next(iter(counts))]
            yield f"  no {missing}, but small values: bytes minus the smallest value, once for both operands; {way}"
            return
        if self.may_widen and self.path == "triangle":
            yield f"  no {missing}: panels are widened to 16 bits, once for both operands"
            return
        if not self.may_widen:
            return
        how = "add two products in 16 bits" if self.isa == "neon" else "use VPMADDUBSW"
        yield f"  no {missing}: panels with a no-saturation proof {how}, all other panels are widened to 16 bits"
        if self.certified_panels is not None:
            yield "  {} of {} panels have a no-saturation proof".format(*self.certified_panels)
        if self.split_panels is not None:
            yield "  {} of {} panels are a dense part, with sums in 16 bits, and outliers".format(*self.split_panels)
        if counts:
            pairs = ", ".join(f"{count} {MULTIPLY_ADDS[way]}" for way, count in counts.items())
            yield f"  by the values of blocks of rows and of panels, {sum(counts.values())} pairs of these: {pairs}"

    def _threads(self) -> str:
        """Describe the threads and their parts."""
        if self.threads == self.max_threads:
            reason = "all that a call may use"
        elif self.threads == 1:
            reason = f"of {self.max_threads}: too little work to wake another"
        else:
            reason = f"of {self.max_threads}: too few tiles or too little work for more"
        if self.path in ("depthwise", "groups", "lines"):
            how = f"lines and channels of the output; {-(-self.workspace // 1024)} KiB of workspace a thread"
        elif self.k_parts > 1:
            how = "each all of C, for a part of k"
        elif self.thread_grid is None:
            how = "each a stretch of tiles"
        else:
            how = "grid {} x {}".format(*self.thread_grid)
        return f"  {self.threads} thread(s), {reason}; {how}"


# The texts for the values of WideExplanation.multiply_add.
WIDE_KINDS = {
    "direct": "the operands are read in place, as the product is small",
    "s16": "pairs of int16, with sums of 32 bits in a tile",
    "s16_full": "pairs of int16 of all values, with two sums of 32 bits",
    "s32": "int32, with sums of 64 bits",
    "s64": "64 bits, with sums modulo 2**64",
    "bytes": "bytes, by the kernels of 8 bits",
    "digits": "the bytes of 16-bit integers, in three products of the kernels of 8 bits",
}


@dataclass(frozen=True)
class WideExplanation:
    """The plan of one product of integers wider than 8 bits.

    Attributes
    ----------
    shape : tuple of int
        (M, N, K) of the matrices.
    isa : str
        The instruction set of the kernels.
    multiply_add : str
        The multiply-add for the values of both operands: 's16' (pairs of int16), 's16_full' (pairs of int16 of all
        values), 'digits' (the bytes of int16), 's32', 's64', 'bytes' (limbs of 8 bits) or 'direct' (a small product,
        from operands in place).
    bits : tuple of int
        The bits of the values of A and of B, without signs.
    limbs : int
        The number of products that are added. A packed B is multiplied by one limb of a wide A at a time, and
        `multiply_add` describes the product of one limb. Without a packed B, `limbs` is 1.
    segment : int, or None
        The number of k whose sum is kept in 32 bits before it is added in 64 bits; None if the sums have 64 bits.
    tile : tuple of int
        Rows and columns of a tile.
    threads, max_threads : int
        The number of threads that take part, and that could take part.
    b_is_packed : bool
        B was packed before.
    searches_overflow : bool
        Sums may exceed 64 bits, so a second product, in float64, finds the sums that exceed 64 bits.
    exact_in_float64 : bool
        All sums are below 2**53 in magnitude, so a float64 BLAS would compute the same values, possibly faster than
        's32' and 's64'.
    """

    shape: tuple[int, int, int]
    isa: str
    multiply_add: str
    bits: tuple[int, int]
    limbs: int
    segment: int | None
    tile: tuple[int, int]
    threads: int
    max_threads: int
    b_is_packed: bool
    searches_overflow: bool
    exact_in_float64: bool

    def __str__(self) -> str:
        m, n, k = self.shape
        lines = [f"{m} x {n} x {k}: kernel {self.isa} {self.multiply_add} {self.tile[0]}x{self.tile[1]}: "
                 f"{WIDE_KINDS[self.multiply_add]}"]  # fmt: skip
        lines.append("  values of {} and {} bits without signs".format(*self.bits))
        if self.limbs > 1:
            lines.append(f"  A is divided into {self.limbs} limbs, each with a product of its own")
        if self.segment is not None:
            lines.append(f"  sums of {self.segment} k have 32 bits, and are added in 64 bits")
        lines.append("  B is packed already" if self.b_is_packed else "  B is packed during the call")
        if self.searches_overflow:
            lines.append("  sums may exceed 64 bits: a second product, in float64, finds the sums that do")
        if self.exact_in_float64 and self.multiply_add in ("s32", "s64"):
            lines.append("  all sums are below 2**53: a float64 BLAS would give the same values, and may be faster")
        lines.append(f"  {self.threads} thread(s) of {self.max_threads}")
        return "\n".join(lines)
