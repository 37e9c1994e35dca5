"""What ``explain`` finds, and how people read it."""

from dataclasses import dataclass

from int8blas.gemm.plan import paths

# Why a path is taken, and whose kernels have its name. Layers add theirs with `add_path`.
PATHS = {name: summary for name, summary, _ in paths()}
KERNEL_NAMES = {name for name, _, names_kernel in paths() if names_kernel}


def add_path(name: str, summary: str, names_kernel: bool) -> None:
    """Let an :class:`Explanation` have a path of another room."""
    PATHS[name] = summary
    if names_kernel:
        KERNEL_NAMES.add(name)


# The multiply-adds of Explanation.multiply_adds.
MULTIPLY_ADDS = {
    "widened": "widened to 16 bits",
    "outliers": "as a dense part and outliers",
    "pairs": "with two products added in 16 bits",
    "two groups": "with two groups of k added in 16 bits",
    "many groups": "with six groups of k or more added in 16 bits",
}


@dataclass(frozen=True)
class Explanation:
    """How one multiplication would be done.

    Attributes
    ----------
    shape : tuple of int
        (M, N, K).
    path : str
        'register' (several rows of A, and B, in a register), 'tiny' (everything on the stack), 'long_k' (few rows and
        columns and a long K; both operands read in place along k), 'few_rows' (B read in place along its rows),
        'few_columns' (few columns or rows; the other operand read in place along k), 'small_k' (C written row by row),
        'triangle' (B is A.T, in the same memory; one triangle is computed and mirrored), 'blocks' (B packed, or packed
        by the call; C in tiles), or, for a convolution, 'lines' (windows of few channels), 'groups' (small groups of
        channels) and 'depthwise' (single ones).
    isa : str
        The kernels in use.
    numerics : str
        'exact' or 'saturating'.
    tile : tuple of int
        Rows and columns of the largest kernel of the path.
    block : tuple of int, or None
        Rows, columns and k of a block, for the paths 'blocks' and 'triangle'.
    threads : int
        Threads that take part.
    thread_grid : tuple of int, or None
        How they divide the rows and the columns of C; None if each takes a stretch of tiles, column by column, or if
        they divide K.
    k_parts : int
        Into how many parts K falls, one for each thread: more than 1 if C has too few tiles for them and K is long.
    segments : int
        Into how many segments K falls, in all parts: more than `k_parts` if sums of a part could leave int32. Each is a
        product of its own, which path, tile and block describe, and their sums are added in int64.
    max_threads : int
        Threads that might have.
    workspace : int
        Bytes of memory that each thread takes for the length of the call, on the paths 'blocks', 'lines', 'groups'
        and 'depthwise'; panels of a plain B, which all share, come on top. On the path 'triangle' what all share is
        part of it.
    b_is_packed, a_in_place, a_shifted, b_shifted, wide_sums, may_widen : bool
        B came packed; A is read in place rather than packed; A is shifted by 128 to uint8; B by -128 to int8; sums are
        carried in int64; panels of B without a certificate are widened to 16 bits, unless they are split (on the path
        'triangle' all are).
    transposed : bool
        What is computed is C.T = B.T @ A.T; but for `shape`, all attributes describe that product.
    certified_panels : tuple of int, or None
        Panels of B with a certificate, and all of them, where that matters and is known before the call.
    split_panels : tuple of int, or None
        Panels of a packed B that are multiplied as a dense part, with sums in 16 bits, and outliers, and all of them;
        None where no panel may be.
    a_quantized : bool
        A is real numbers: they are quantized to 8 bits before, which is described here.
    multiply_adds : dict of str to int, or None
        Without VNNI, on the path 'blocks', for how many panels of B in each block of rows of A the values of both allow
        which multiply-add: 'widened' (to 16 bits before), 'outliers' (a dense part and outliers), 'pairs' (sums of two
        products fit int16: one VPMADDUBSW), 'two groups' (so do those of two groups of four k) and 'many groups' (of
        six at least). None where operands are not known before the call, as those of layers. On the path 'triangle',
        for how many pairs of panels, if all values of A are so near one another that none is widened.
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

    @property
    def kernel(self) -> str:
        """The name of the main kernel, such as 'avx512vnni 8x48'."""
        kind = f" {self.path}" if self.path in KERNEL_NAMES else ""
        return f"{self.isa}{kind} {self.tile[0]}x{self.tile[1]}"

    def __str__(self) -> str:
        m, n, k = self.shape
        lines = [f"{m} x {n} x {k}: kernel {self.kernel}, {self.numerics}, path {self.path}: {PATHS[self.path]}"]
        if self.transposed:
            lines.append("  C.T = B.T @ A.T is computed, as C has few columns and A contiguous ones: A below is B.T")
        if self.block is not None:
            lines.append(
                "  blocks of {} rows, {} columns, {} k; {} KiB of workspace a thread".format(
                    *self.block, -(-self.workspace // 1024)
                )
            )
            if self.path == "triangle":
                lines.append("  A is packed once, as B is, for both operands")
            else:
                lines.append("  B is packed already" if self.b_is_packed else "  B is packed during the call")
            if self.a_in_place:
                lines.append("  A is read in place: it is uint8 with contiguous rows")
            elif self.path != "triangle":
                lines.append("  A is packed block by block")
        if self.a_quantized:
            lines.append("  A is real numbers, quantized to 8 bits before: an image, or all of them, at a time")
        if self.a_shifted:
            lines.append("  A is int8: one operand is shifted by 128, and compensated with sums of the other")
        if self.b_shifted:
            lines.append("  B is uint8: shifted by -128 unless A is int8 and read in place")
        if self.wide_sums:
            pieces = "blocks" if self.segments == 1 else f"{self.segments} segments of k"
            lines.append(f"  sums of this K could leave int32: those of {pieces} are added in int64")
        missing = "dot product" if self.isa == "neon" else "VNNI"
        if self.multiply_adds and self.path == "triangle":
            way = MULTIPLY_ADDS[next(iter(self.multiply_adds))]
            lines.append(f"  no {missing}, but small values: bytes less the smallest, once for both operands; {way}")
        elif self.may_widen and self.path == "triangle":
            lines.append(f"  no {missing}: panels are widened to 16 bits, once for both operands")
        elif self.may_widen:
            how = "add two products in 16 bits" if self.isa == "neon" else "use VPMADDUBSW"
            lines.append(f"  no {missing}: panels with a certificate {how}, the others are widened to 16 bits")
            if self.certified_panels is not None:
                lines.append("  {} of {} panels have a certificate".format(*self.certified_panels))
            if self.split_panels is not None:
                lines.append(
                    "  {} of {} panels are a dense part, with sums in 16 bits, and outliers".format(*self.split_panels)
                )
            if self.multiply_adds:
                lines.append(
                    "  by the values of blocks of rows and of panels, {} pairs of these: {}".format(
                        sum(self.multiply_adds.values()),
                        ", ".join(f"{count} {MULTIPLY_ADDS[way]}" for way, count in self.multiply_adds.items()),
                    )
                )
        if self.threads == self.max_threads:
            reason = "all there are"
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
        lines.append(f"  {self.threads} thread(s), {reason}; {how}")
        return "\n".join(lines)
