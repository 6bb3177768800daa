"""Products that a FusedLayer computes itself: their sums never leave the accumulator.

A tile is some rows of one image (of a batch), and all columns or a block of them. Its MATRIX fills
one half of the accumulator while the steps work on the tile before it in the other.
"""

from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.emitter import LayerEmitter
from sw.compiler.kernels.fused.layer import Factor, Product
from sw.compiler.kernels.fused.rotation import Held, Rotation
from sw.compiler.kernels.fused.tiles import Ranges
from sw.compiler.program.records import ArrayLoop, Matrix
from sw.compiler.program.virtual import Access, Buffer, Place


class ProductTiles(LayerEmitter):
    """Emits the loads and the MATRIX of each tile."""

    def __init__(
        self,
        product: Product,
        name: str,
        tile: tuple[int, ...],
        context: EmitContext,
        lefts: int,
        rights: int,
    ) -> None:
        """`lefts`, `rights`: buffers of the left operand and of blocks of the right one."""
        super().__init__(name, context)
        self.product = product
        left, right = product.nbytes(tile)
        self.left = self._rotation("left", lefts, left)
        self.right = self._rotation("right", rights, right)

    def _rotation(self, what: str, count: int, size: int) -> Rotation:
        buffers = self.slots(what, Place.SPAD, count, size).buffers
        return Rotation([Held(buffer, 0, size) for buffer in buffers])

    def load(self, tile: Ranges) -> None:
        """Load what is not on chip yet of the operands of `tile`."""
        *outer, rows, cols = tile
        product, depth = self.product, self.product.depth
        m, n = rows[1] - rows[0], cols[1] - cols[0]
        right, fresh = self.right.take((*outer, cols), set())
        if fresh:
            columns = (n, product.right.strides[-1])
            along = (depth, product.right.along)
            pair = (columns, along) if product.transposed else (along, columns)
            self._load(product.right, tile, pair, right.buffer, "right")
        left, fresh = self.left.take(tile[:-1], set())
        if not fresh:
            return
        pair = ((m, product.left.strides[-2]), (depth, product.left.along))
        self._load(product.left, tile, pair, left.buffer, "left")

    def _load(
        self,
        factor: Factor,
        tile: Ranges,
        pair: tuple[tuple[int, int], tuple[int, int]],
        slot: Buffer,
        what: str,
    ) -> None:
        base = factor.offset
        base += sum(start * step for (start, _), step in zip(tile, factor.strides, strict=True))
        (outer, far), (inner, near) = pair
        box = [(outer, far, inner), (inner, near, 1)]
        memory = self.context.tensors[factor.tensor]
        self.load_copies(memory, base, box, 1, slot, 0, outer * inner, f"{what} {tile}")

    def matrix(self, tile: Ranges, acc: int) -> None:
        """Compute the product of `tile` into the accumulator from vector `acc` on."""
        *outer, (r0, r1), (c0, c1) = tile
        product, cfg = self.product, self.config
        m, n, depth = r1 - r0, c1 - c0, product.depth
        blocks, parts = -(-n // cfg.cols), -(-depth // cfg.rows)
        left = self.left.held[tile[:-1]].buffer
        right = self.right.held[*outer, tile[-1]].buffer
        block = cfg.cols * (depth if product.transposed else 1)
        part = cfg.rows * (1 if product.transposed else n)
        record = Matrix(
            wgt_row=depth if product.transposed else n,
            transposed=int(product.transposed),
            acc_base=acc,
            act_zp=product.left.zero_point,
            wgt_zp=product.right.zero_point,
            fold_loops=2,
            k_loops=0b10,
            row_loop=1,
            rows=min(cfg.rows, depth),
            rows_last=depth - (parts - 1) * cfg.rows,
            col_loop=0,
            cols=min(cfg.cols, n),
            cols_last=n - (blocks - 1) * cfg.cols,
            loop=[
                ArrayLoop(count=blocks, wgt=block, acc=1),
                ArrayLoop(count=parts, act=cfg.rows, wgt=part),
                ArrayLoop(count=m, act=depth, acc=blocks),
            ],
        )
        accesses = [
            Access(buffer=left, start=0, stop=m * depth, write=False),
            Access(buffer=right, start=0, stop=depth * n, write=False, weights=True),
            Access(buffer=self.context.acc, start=acc, stop=acc + m * blocks, write=True),
        ]
        bases = {"act_base": left, "wgt_base": right, "acc_base": self.context.acc}
        self.append(record, bases, accesses, f"product {tile}")
