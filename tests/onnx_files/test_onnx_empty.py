"""Empty inputs: each operator of the table, and each pattern that becomes one node, with size 0 for each dimension in
turn.

A case is a graph whose sizes are letters. Sizes in lower case may be 0. The sizes of the graph's outputs are
expressions, which state the expected shapes. Each case first runs without an empty size.
"""

import re

import numpy as np
import onnx
import pytest
from onnx_models import model_of

import int8blas.onnx
from int8blas.onnx.operators import TABLE
from int8blas.onnx.table import DOMAIN, LEARNING

SIZES = {"n": 2, "m": 3, "k": 4, "c": 6, "h": 5, "w": 7, "t": 3, "b": 2, "g": 2, "d": 4}
# Sizes in upper case are never 0.
SIZES |= {name.upper(): size for name, size in SIZES.items()}
NEWEST = 18  # the version of graphs, unless they begin with another one
KINDS = {"float": "float32", "double": "float64", "string": "object"}


def derived(row):
    """Return the graph of an element-wise operator with one input or two broadcast inputs, from ONNX's schema."""
    schema = onnx.defs.get_schema(row.name)
    first, result = schema.inputs[0], schema.outputs[0]
    kind = next(kind for kind in ("float", "int32", "bool") if f"tensor({kind})" in first.types)
    several = schema.min_input > 1 or first.option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    text = (TWO if several else ONE).format(kind, kind if result.type_str == first.type_str else "bool")
    return (f"@{row.since} " if row.since > NEWEST else "") + text.replace("OP", row.name)


def each(names, text):
    """Return the graph for several operators; OP stands for the operator."""
    return {name: text.replace("OP", name) for name in names.split()}


ONE = "{0}[n,m] x => {1}[n,m] y {{ y = OP(x) }}"
OF_FLOATS = ONE.format("float", "float")
TWO = "{0}[n,1,m] x, {0}[k,m] z => {1}[n,k,m] y {{ y = OP(x, z) }}"
REDUCE = "float[n,m,k] x => float[n,1,k] y, float[n,m] z <int64[1] p = {1}, int64[1] q = {2}> " \
         "{ y = OP(x, p) z = OP<keepdims = 0>(x, q) }"  # fmt: skip
LAST = "float[n,m,k] x => float[n,m,k] y { y = OP<axis = 1>(x) }"
WINDOW = "float[n,c,H,W] x => float[n,c,4,3] y { y = OP<kernel_shape = [2, 3], strides = [1, 2]>(x) }"
FILTER = "(x, v, a) }"
BYTE = "<float s = {0.1}, uint8 q = {3}>"
CASES = {
    **{row.name: derived(row) for row, *_ in TABLE.rows.values() if row.traits.elementwise and not row.domain},
    **each("Identity com.microsoft.Gelu com.microsoft.FastGelu com.microsoft.QuickGelu", OF_FLOATS),
    "com.microsoft.BiasGelu": "float[n,m] x, float[m] z => float[n,m] y { y = com.microsoft.BiasGelu(x, z) }",
    "Mod": TWO.format("int32", "int32").replace("OP", "Mod"),
    "BitShift": "uint8[n,1,m] x, uint8[k,m] z => uint8[n,k,m] y { y = BitShift<direction = \"LEFT\">(x, z) }",
    "PRelu": "float[n,m] x, float[m] z => float[n,m] y { y = PRelu(x, z) }",
    "Clip": "float[n,m] x => float[n,m] y <float p = {0}, float q = {1}> { y = Clip(x, p, q) }",
    "Where": "bool[n,1] b, float[n,m] x, float[m] z => float[n,m] y { y = Where(b, x, z) }",
    "Cast": "float[n,m] x => uint8[n,m] y { y = Cast<to = 2>(x) }",
    "CastLike": "float[n,m] x, int64[k] z => int64[n,m] y { y = CastLike(x, z) }",
    "Dropout": "float[n,m] x => float[n,m] y, bool[n,m] z { y, z = Dropout(x) }",
    "BitCast": "@26 float[n,m] x => int32[n,m] y { y = BitCast<to = 6>(x) }",
    "Bernoulli": "float[n,m] x => float[n,m] y { y = Bernoulli(x) }",
    "Multinomial": "float[n,M] x => int32[n,5] y { y = Multinomial<sample_size = 5>(x) }",
    "Optional": "float[n,m] x => float[n,m] y { y = Optional(x) }",
    "SequenceMap": "float[n,m] x => int64 y { s = SequenceConstruct(x, x) r = SequenceMap<body = b (float[n,m] p) => "
                   "(float[n,m] q) { q = Abs(p) }>(s) y = SequenceLength(r) }",
    "com.microsoft.ExpandDims": "float[n,m] x => float[n,1,m] y <int32 p = {1}> { y = com.microsoft.ExpandDims(x, p) }",
    "com.microsoft.GatherND": "float[n,m] x => float[0,m] y <int64[0,1] i = {}> { y = com.microsoft.GatherND(x, i) }",
    "com.microsoft.Pad": "float[n,m] x => float[n+2,m] y <int64[4] p = {1, 0, 1, 0}> { y = com.microsoft.Pad(x, p) }",
    "com.microsoft.Range": "int64 f, int64 l => int64[0] y <int64 o = {1}> { y = com.microsoft.Range(f, l, o) }",
    "com.microsoft.Trilu": "float[n,m] x => float[n,m] y { y = com.microsoft.Trilu(x) }",
    "com.microsoft.TransposeMatMul": "float[n,m,k] x, float[c,k] z => float[n,m,c] y "
                                     "{ y = com.microsoft.TransposeMatMul<transB = 1>(x, z) }",
    "com.microsoft.NhwcMaxPool": "uint8[n,H,W,c] x => uint8[n,4,5,c] y "
                                 "{ y = com.microsoft.NhwcMaxPool<kernel_shape = [2, 3]>(x) }",
    "com.microsoft.QLinearConv": "uint8[n,H,W,c] x, int8[m,c,2,3] v, float[m] s, int8[m] q, int32[m] a => "
                                 "uint8[n,4,5,m] y <float t = {0.1}, uint8 p = {3}> "
                                 "{ y = com.microsoft.QLinearConv<channels_last = 1>(x, t, p, v, s, q, t, p, a) }",
    # moves
    "Flatten": "float[n,m,k] x => float[n*m,k] y { y = Flatten<axis = 2>(x) }",
    "Reshape": "float[n,m,4] x => float[n,4,m] y <int64[3] s = {$n, 4, $m}> { y = Reshape<allowzero = 1>(x, s) }",
    "Transpose": "float[n,m,k] x => float[k,n,m] y { y = Transpose<perm = [2, 0, 1]>(x) }",
    "Squeeze": "float[n,1,m] x => float[n,m] y <int64[1] s = {1}> { y = Squeeze(x, s) }",
    "Unsqueeze": "float[n,m] x => float[n,1,m] y <int64[1] s = {1}> { y = Unsqueeze(x, s) }",
    "Expand": "float[n,1,m] x => float[n,5,m] y <int64[2] s = {5, 1}> { y = Expand(x, s) }",
    "Slice": "float[n,m,5] x => float[n,m,2] y <int64[1] f = {1}, int64[1] l = {3}, int64[1] a = {2}> "
             "{ y = Slice(x, f, l, a) }",
    "Concat": "float[n,m] x, float[k,m] z => float[n+k,m] y { y = Concat<axis = 0>(x, z) }",
    "Split": "float[n,m,6] x => float[n,m,2] y, float[n,m,4] z <int64[2] s = {2, 4}> { y, z = Split<axis = 2>(x, s) }",
    "Tile": "float[n,m] x => float[2*n,3*m] y <int64[2] s = {2, 3}> { y = Tile(x, s) }",
    "Pad": "float[n,m,k] x => float[n,m+3,k] y <int64[6] s = {0, 1, 0, 0, 2, 0}> { y = Pad(x, s) }",
    "Gather": "float[n,M,k] x, int64[m,t] i => float[n,m,t,k] y { y = Gather<axis = 1>(x, i) }",
    "GatherElements": "float[n,M] x, int64[n,t] i => float[n,t] y { y = GatherElements<axis = 1>(x, i) }",
    "GatherND": "float[N,M,k] x, int64[t,2] i => float[t,k] y { y = GatherND(x, i) }",
    "ScatterElements": "float[N,M] x, int64[n,m] i, float[n,m] u => float[N,M] y "
                       "{ y = ScatterElements<axis = 1>(x, i, u) }",
    "Scatter": "@10 float[N,M] x, int64[n,m] i, float[n,m] u => float[N,M] y { y = Scatter<axis = 1>(x, i, u) }",
    "ScatterND": "float[N,M,k] x, int64[t,2] i, float[t,k] u => float[N,M,k] y { y = ScatterND(x, i, u) }",
    "TensorScatter": "@24 float[b,N,K,m] x, float[b,N,T,m] u, int64[b] i => float[b,N,K,m] y "
                     "{ y = TensorScatter<axis = 2>(x, u, i) }",
    "Compress": "float[n,M] x, bool[m] b => float[n,0] y { y = Compress<axis = 1>(x, b) }",
    "Trilu": "float[n,m,k] x => float[n,m,k] y { y = Trilu(x) }",
    "EyeLike": "float[n,m] x => float[n,m] y { y = EyeLike(x) }",
    "DepthToSpace": "float[n,C*4,h,w] x => float[n,C,2*h,2*w] y { y = DepthToSpace<blocksize = 2>(x) }",
    "SpaceToDepth": "float[n,c,2*h,2*w] x => float[n,c*4,h,w] y { y = SpaceToDepth<blocksize = 2>(x) }",
    "ReverseSequence": "float[T,n,m] x, int64[n] l => float[T,n,m] y { o = Constant<value = int64 {1}>() "
                       "k = Add(l, o) y = ReverseSequence(x, k) }",
    "CenterCropPad": "float[n,m,5] x => float[n,m,3] y <int64[1] s = {3}> { y = CenterCropPad<axes = [2]>(x, s) }",
    "OneHot": "int64[n,m] x => float[n,m,4] y <int64 s = {4}, float[2] v = {0, 1}> { y = OneHot(x, s, v) }",
    "Unique": "float[n] x => float[n] y { y = Unique(x) }",
    "NonZero": "float[n,m] x => int64[2,n*m] y { y = NonZero(x) }",
    "Shape": "float[n,m] x => int64[2] y { y = Shape(x) }",
    "Size": "float[n,m] x => int64[] y { y = Size(x) }",
    # generators
    "Constant": "float[n,m] x => float[n,m] y { c = Constant<value = float {1}>() y = Add(x, c) }",
    "ConstantOfShape": "int64[2] s => float[0,0] y { y = ConstantOfShape(s) }",
    "Range": "int64 f, int64 l => int64[0] y { o = Constant<value = int64 {1}>() y = Range(f, l, o) }",
    **each("RandomNormal RandomUniform", "float[n] x => float[n,4] y { r = OP<shape = [$n, 4]>() y = Identity(r) }"),
    **each("RandomNormalLike RandomUniformLike", OF_FLOATS),
    **each("BlackmanWindow HammingWindow HannWindow", "int64 s => float[0] y { y = OP(s) }"),
    # reductions
    **each("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
           "ReduceSumSquare", REDUCE),
    **each("ArgMax ArgMin", "float[n,M,k] x => int64[n,1,k] y { y = OP<axis = 1>(x) }"),
    "TopK": "float[n,5,m] x => float[n,2,m] y, int64[n,2,m] z <int64[1] s = {2}> { y, z = TopK<axis = 1>(x, s) }",
    **each("CumSum", "float[n,m] x => float[n,m] y <int64 a = {1}> { y = OP(x, a) }"),
    "CumProd": "@26 float[n,m] x => float[n,m] y <int64 a = {1}> { y = CumProd(x, a) }",
    # products
    "MatMul": "float[n,m,k] x, float[k,c] z => float[n,m,c] y { y = MatMul(x, z) }",
    "Gemm": "float[n,k] x, float[m,k] z, float[m] a => float[n,m] y { y = Gemm<transB = 1, alpha = 0.5>(x, z, a) }",
    "Einsum": "float[n,k] x, float[k,m] z => float[n,m] y { y = Einsum<equation = \"ik,kj->ij\">(x, z) }",
    "Det": "float[n,M,M] x => float[n] y { y = Det(x) }",
    "MatMulInteger": "uint8[b,n,k] x, int8[k,m] z, uint8 p, int8[m] q => int32[b,n,m] y "
                     "{ y = MatMulInteger(x, z, p, q) }",
    "QLinearMatMul": "uint8[b,n,k] x, int8[k,m] z, int8[m] q, float[m] s => uint8[b,n,m] y <float t = {0.1}, "
                     "uint8 p = {3}> { y = QLinearMatMul(x, t, p, z, s, q, t, p) }",
    # windows
    **each("MaxPool AveragePool LpPool", WINDOW),
    **each("GlobalAveragePool GlobalMaxPool GlobalLpPool", "float[n,c,H,W] x => float[n,c,1,1] y { y = OP(x) }"),
    "Conv": "float[n,c,H,W] x, float[m,c,2,3] v, float[m] a => float[n,m,4,5] y { y = Conv" + FILTER,
    "ConvTranspose": "float[n,c,H,W] x, float[c,m,2,3] v, float[m] a => float[n,m,6,9] y { y = ConvTranspose" + FILTER,
    "ConvInteger": "uint8[n,c,H,W] x, int8[m,c,2,3] v => int32[n,m,4,5] y { y = ConvInteger(x, v) }",
    "QLinearConv": "uint8[n,c,H,W] x, int8[m,c,2,3] v, float[m] s, int8[m] q, int32[m] a => uint8[n,m,4,5] y "
                   "<float t = {0.1}, uint8 p = {3}> { y = QLinearConv(x, t, p, v, s, q, t, p, a) }",
    "DeformConv": "@19 float[n,C,H,W] x, float[M,C,2,3] v, float[n,12,4,5] o => float[n,M,4,5] y "
                  "{ y = DeformConv(x, v, o) }",
    "Col2Im": "float[n,12,4] x => float[n,2,3,4] y <int64[2] i = {3, 4}, int64[2] k = {2, 3}> { y = Col2Im(x, i, k) }",
    "MaxUnpool": "float[n,c,4,6] x => float[n,c,4,6] y { p, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) "
                 "y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(p, i) }",
    "Resize": "float[n,c,H,W] x => float[n,c,10,14] y <float[4] s = {1, 1, 2, 2}> { y = Resize(x, , s) }",
    "Upsample": "@9 float[n,c,H,W] x => float[n,c,10,14] y <float[4] s = {1, 1, 2, 2}> { y = Upsample(x, s) }",
    "GridSample": "float[n,c,H,W] x, float[n,h,w,2] z => float[n,c,h,w] y { y = GridSample(x, z) }",
    "AffineGrid": "@20 float[n,2,3] x => float[n,4,5,2] y <int64[4] s = {$n, 3, 4, 5}> { y = AffineGrid(x, s) }",
    "RoiAlign": "float[N,c,H,W] x, float[n,4] r, int64[n] i => float[n,c,2,2] y "
                "{ y = RoiAlign<output_height = 2, output_width = 2>(x, r, i) }",
    # rows and channels
    **each("Softmax LogSoftmax Hardmax", LAST),
    "LpNormalization": "float[n,m,k] x => float[n,m,k] y { y = LpNormalization<axis = 1>(x) }",
    "LayerNormalization": "float[n,m,k] x, float[k] s, float[k] a => float[n,m,k] y "
                          "{ y = LayerNormalization(x, s, a) }",
    "SimplifiedLayerNormalization": "float[n,m,k] x, float[k] s => float[n,m,k] y "
                                    "{ y = SimplifiedLayerNormalization(x, s) }",
    "RMSNormalization": "@23 float[n,m,k] x, float[k] s => float[n,m,k] y { y = RMSNormalization(x, s) }",
    "BatchNormalization": "float[n,c,h] x, float[c] s, float[c] a, float[c] m, float[c] v => float[n,c,h] y "
                          "{ y = BatchNormalization(x, s, a, m, v) }",
    "InstanceNormalization": "float[n,c,h] x, float[c] s, float[c] a => float[n,c,h] y "
                             "{ y = InstanceNormalization(x, s, a) }",
    "GroupNormalization": "@21 float[n,2*c,h] x, float[2*c] s, float[2*c] a => float[n,2*c,h] y "
                          "{ y = GroupNormalization<num_groups = 2>(x, s, a) }",
    "MeanVarianceNormalization": "float[n,c,h,w] x => float[n,c,h,w] y { y = MeanVarianceNormalization(x) }",
    "LRN": "float[n,c,h,w] x => float[n,c,h,w] y { y = LRN<size = 3>(x) }",
    # quantization
    "QuantizeLinear": "float[n,m] x, float[m] s, int8[m] q => int8[n,m] y { y = QuantizeLinear(x, s, q) }",
    "DequantizeLinear": "int8[n,m] x, float[m] s, int8[m] q => float[n,m] y { y = DequantizeLinear(x, s, q) }",
    "com.microsoft.QuantizeLinear": "float[n,m] x, float s, uint8 q => uint8[n,m] y "
                                    "{ y = com.microsoft.QuantizeLinear(x, s, q) }",
    "com.microsoft.DequantizeLinear": "uint8[n,m] x, float s, uint8 q => float[n,m] y "
                                      "{ y = com.microsoft.DequantizeLinear(x, s, q) }",
    "DynamicQuantizeLinear": "float[n,m] x => uint8[n,m] y, float[] s, uint8[] q "
                             "{ y, s, q = DynamicQuantizeLinear(x) }",
    # recurrent layers
    "LSTM": "float[t,b,k] x, float[1,16,k] v, float[1,16,4] r => float[t,1,b,4] y, float[1,b,4] p, float[1,b,4] q "
            "{ y, p, q = LSTM<hidden_size = 4>(x, v, r) }",
    "GRU": "float[t,b,k] x, float[1,12,k] v, float[1,12,4] r => float[t,1,b,4] y, float[1,b,4] p "
           "{ y, p = GRU<hidden_size = 4>(x, v, r) }",
    "RNN": "float[t,b,k] x, float[2,4,k] v, float[2,4,4] r => float[t,2,b,4] y, float[2,b,4] p "
           "{ y, p = RNN<hidden_size = 4, direction = \"bidirectional\">(x, v, r) }",
    # control, sequences
    "If": "bool b, float[n,m] x => float[n,m] y { y = If(b) <then_branch = t () => (p) { p = Abs(x) }, "
          "else_branch = e () => (q) { q = Neg(x) }> }",
    "Loop": "int64 l, float[n,m] x => float[n,m] y { y = Loop(l, , x) <body = "
            "b (int64 i, bool c, float[n,m] p) => (bool d, float[n,m] q) { d = Identity(c) q = Abs(p) }> }",
    "Scan": "float[m] s, float[t,m] x => float[m] y, float[t,m] z { y, z = Scan<num_scan_inputs = 1, body = "
            "b (float[m] p, float[m] e) => (float[m] q, float[m] o) { q = Add(p, e) o = Identity(q) }>(s, x) }",
    "SequenceConstruct": "float[n,m] x, float[n,m] z => float[n,m] y <int64 i = {1}> { q = SequenceConstruct(x, z) "
                         "y = SequenceAt(q, i) }",
    **{f"Sequence{name}": "float[n,m] x => float[n,m] y <int64 z = {0}> { e = SequenceEmpty() "
       "p = SequenceInsert(e, x) q = SequenceInsert(p, x) r = SequenceErase(q, z) y = SequenceAt(r, z) }"
       for name in ("Empty", "Insert", "Erase", "At")},
    "SequenceLength": "float[n,m] x => int64[] y { q = SequenceConstruct(x) y = SequenceLength(q) }",
    "ConcatFromSequence": "float[n,m] x => float[2*n,m] y { q = SequenceConstruct(x, x) "
                          "y = ConcatFromSequence<axis = 0>(q) }",
    "SplitToSequence": "float[n,4] x => float[n,2] y <int64 s = {2}, int64 z = {0}> "
                       "{ q = SplitToSequence<axis = 1>(x, s) y = SequenceAt(q, z) }",
    "OptionalGetElement": "float[n,m] x => float[n,m] y { y = OptionalGetElement(x) }",
    "OptionalHasElement": "float[n,m] x => bool[] y { y = OptionalHasElement(x) }",
    # strings
    "StringConcat": "@20 string[n,m] x, string[m] z => string[n,m] y { y = StringConcat(x, z) }",
    "StringNormalizer": "string[n] x => string[n+(n==0)] y { y = StringNormalizer<case_change_action = \"UPPER\">(x) }",
    "StringSplit": "@20 string[n] x => string[n,n>0] y, int64[n] z { y, z = StringSplit(x) }",
    "RegexFullMatch": "@20 string[n,m] x => bool[n,m] y { y = RegexFullMatch<pattern = \"a\">(x) }",
    "TfIdfVectorizer": "int32[n,m] x => float[n,1] y { y = TfIdfVectorizer<mode = \"TF\", min_gram_length = 1, "
                       "max_gram_length = 1, max_skip_count = 0, ngram_counts = [0], ngram_indexes = [0], "
                       "pool_int64s = [5]>(x) }",
    # signals, losses, boxes
    "DFT": "@20 float[n,8,1] x => float[n,8,2] y { y = DFT(x) }",
    "STFT": "float[n,16,1] x => float[n,3,5,2] y <int64 s = {4}, int64 f = {8}> { y = STFT(x, s, , f) }",
    "MelWeightMatrix": "int64 m => float[9,0] y <int64 l = {16}, int64 r = {8000}, float p = {0}, float q = {4000}> "
                       "{ y = MelWeightMatrix(m, l, r, p, q) }",
    "MaxRoiPool": "float[N,c,8,8] x => float[0,c,2,2] y <float[0,5] r = {}> "
                  "{ y = MaxRoiPool<pooled_shape = [2, 2]>(x, r) }",
    "com.microsoft.GridSample": "float[n,c,H,W] x, float[n,h,w,2] z => float[n,c,h,w] y "
                                "{ y = com.microsoft.GridSample(x, z) }",
    "NonMaxSuppression": "float[b,n,4] x, float[b,c,n] s => int64[0,3] y { y = NonMaxSuppression(x, s) }",
    "NegativeLogLikelihoodLoss": "float[n,C,d] x, int64[n,d] t => float[n,d] y "
                                 "{ y = NegativeLogLikelihoodLoss<reduction = \"none\">(x, t) }",
    "SoftmaxCrossEntropyLoss": "float[n,C,d] x, int64[n,d] t => float[n,d] y "
                               "{ y = SoftmaxCrossEntropyLoss<reduction = \"none\">(x, t) }",
    # attention
    "RotaryEmbedding": "@23 float[b,2,n,8] x, float[b,n,4] c, float[b,n,4] s => float[b,2,n,8] y "
                       "{ y = RotaryEmbedding(x, c, s) }",
    "SwiGLU": "@26 float[n,m] x, float[n,m] z => float[n,m] y { y = SwiGLU(x, z) }",
    "Attention": "@23 float[b,2,n,8] q, float[b,2,M,8] k, float[b,2,M,8] v => float[b,2,n,8] y "
                 "{ y = Attention(q, k, v) }",
    # onnxruntime's
    **each("com.microsoft.QLinearAdd com.microsoft.QLinearMul",
           f"uint8[n,1,m] x, uint8[k,m] z => uint8[n,k,m] y {BYTE} {{ y = OP(x, s, q, z, s, q, s, q) }}"),
    **each("com.microsoft.QLinearSigmoid com.microsoft.QLinearLeakyRelu",
           f"uint8[n,m] x => uint8[n,m] y {BYTE} {{ y = OP(x, s, q, s, q) }}"),
    "com.microsoft.QLinearSoftmax": f"uint8[n,m,k] x => uint8[n,m,k] y {BYTE} "
                                    "{ y = com.microsoft.QLinearSoftmax<axis = 1, opset = 13>(x, s, q, s, q) }",
    "com.microsoft.QLinearConcat": f"uint8[n,m] x, uint8[k,m] z => uint8[n+k,m] y {BYTE} "
                                   "{ y = com.microsoft.QLinearConcat<axis = 0>(s, q, x, s, q, z, s, q) }",
    "com.microsoft.QLinearAveragePool": f"uint8[n,c,H,W] x => uint8[n,c,4,5] y {BYTE} "
                                        "{ y = com.microsoft.QLinearAveragePool<kernel_shape = [2, 3]>"
                                        "(x, s, q, s, q) }",
    "com.microsoft.QLinearGlobalAveragePool": f"uint8[n,c,H,W] x => uint8[n,c,1,1] y {BYTE} "
                                              "{ y = com.microsoft.QLinearGlobalAveragePool(x, s, q, s, q) }",
    "com.microsoft.QLinearReduceMean": f"uint8[n,M,k] x => uint8[n,1,k] y {BYTE} "
                                       "{ y = com.microsoft.QLinearReduceMean<axes = [1]>(x, s, q, s, q) }",
    "com.microsoft.QGemm": f"uint8[n,k] x, uint8[k,m] z, int32[m] a => uint8[n,m] y {BYTE} "
                           "{ y = com.microsoft.QGemm(x, s, q, z, s, q, a, s, q) }",
    "com.microsoft.MatMulIntegerToFloat": "uint8[b,n,k] x, uint8[k,m] z, float s, float[m] t, uint8 q, uint8[m] p, "
                                          "float[m] a => float[b,n,m] y "
                                          "{ y = com.microsoft.MatMulIntegerToFloat(x, z, s, t, q, p, a) }",
    "com.microsoft.DynamicQuantizeMatMul": "float[b,n,k] x, uint8[k,m] z, float[m] t, uint8[m] p, float[m] a => "
                                           "float[b,n,m] y { y = com.microsoft.DynamicQuantizeMatMul(x, z, t, p, a) }",
    "com.microsoft.DynamicQuantizeLSTM": "float[t,b,k] x, int8[1,k,16] v, int8[1,4,16] r, float[1] s, int8[1] q => "
                                         "float[t,1,b,4] y, float[1,b,4] o, float[1,b,4] p { y, o, p = "
                                         "com.microsoft.DynamicQuantizeLSTM<hidden_size = 4>"
                                         "(x, v, r, , , , , , s, q, s, q) }",
    "com.microsoft.QAttention": "uint8[b,n,k] x, int8[k,24] v, float[24] a, float s, uint8 q, int8 p => float[b,n,8] y "
                                "{ y = com.microsoft.QAttention<num_heads = 2>(x, v, a, s, s, , q, p) }",
    "com.microsoft.QLinearWhere": f"bool[n,1] c, uint8[n,m] x, uint8[n,m] z => uint8[n,m] y {BYTE} "
                                  "{ y = com.microsoft.QLinearWhere(c, x, s, q, z, s, q, s, q) }",
    "com.microsoft.FusedMatMul": "float[n,m,k] x, float[c,k] z => float[n,m,c] y "
                                 "{ y = com.microsoft.FusedMatMul<transB = 1>(x, z) }",
    "com.microsoft.FusedGemm": "float[n,k] x, float[k,m] z, float[m] a => float[n,m] y "
                               "{ y = com.microsoft.FusedGemm<activation = \"Relu\">(x, z, a) }",
    "com.microsoft.FusedConv": "float[n,C,H,W] x, float[2,6,2,3] v => float[n,2,4,5] y "
                               "{ y = com.microsoft.FusedConv<activation = \"Relu\">(x, v) }",
    "com.microsoft.SkipLayerNormalization": "float[b,n,k] x, float[b,n,k] z, float[k] g => float[b,n,k] y "
                                            "{ y = com.microsoft.SkipLayerNormalization(x, z, g) }",
    "com.microsoft.SkipSimplifiedLayerNormalization": "float[b,n,k] x, float[b,n,k] z, float[k] g => float[b,n,k] y "
                                                      "{ y = com.microsoft.SkipSimplifiedLayerNormalization(x, z, g) }",
    "com.microsoft.EmbedLayerNormalization": "int32[b,n] x, float[10,8] e, float[9,8] p, float[8] g => "
                                             "float[b,n,8] y, int32[b] z "
                                             "{ y, z = com.microsoft.EmbedLayerNormalization(x, , e, p, , g, g) }",
    "com.microsoft.Attention": "float[b,n,k] x, float[k,24] v, float[24] a => float[b,n,8] y "
                               "{ y = com.microsoft.Attention<num_heads = 2>(x, v, a) }",
    "com.microsoft.MultiHeadAttention": "float[b,n,8] q, float[b,M,8] k, float[b,M,8] v => float[b,n,8] y "
                                        "{ y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, v) }",
    "com.microsoft.MatMulNBits": "float[b,n,16] x, uint8[4,1,8] v, float[4] s => float[b,n,4] y { y = "
                                 "com.microsoft.MatMulNBits<K = 16, N = 4, bits = 4, block_size = 16>(x, v, s) }",
    "com.microsoft.GatherBlockQuantized": "int64[n,m] i, uint8[10,16] d, float[10,1] s => float[n,m,16] y { y = "
                                          "com.microsoft.GatherBlockQuantized<block_size = 16, bits = 8>(d, i, s) }",
    "com.microsoft.RotaryEmbedding": "float[b,n,8] x, int64[1] p, float[9,4] c, float[9,4] s => float[b,n,8] y "
                                     "{ y = com.microsoft.RotaryEmbedding(x, p, c, s) }",
    "com.microsoft.GroupQueryAttention": "float[b,1,8] q, float[b,1,8] k, int32[b] l, int32 t => float[b,1,8] y { y = "
                                         "com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 2>"
                                         "(q, k, k, , , l, t) }",
    "com.microsoft.QEmbedLayerNormalization": "int32[b,n] x, uint8[10,8] e, uint8[9,8] p, uint8[8] g, float s, "
                                              "uint8 q => float[b,n,8] y, int32[b] z "
                                              "{ y, z = com.microsoft.QEmbedLayerNormalization"
                                              "(x, , e, p, , g, g, , s, s, , s, s, q, q, , q, q) }",
}  # fmt: skip
# Patterns, and the operator that computes a graph of each.
DYNAMIC = "q, t, z = DynamicQuantizeLinear(x)"
SCALED = "f = Cast<to = 1>(i) u = Mul(t, s) p = Mul(f, u)"
WEIGHTS = "int8[K,M] v = {$ints}, float[M] s = {$ones}, float[M] a = {$ones}"
DEQUANTIZED = f"{BYTE} {{ e = DequantizeLinear(x, s, q)"
PATTERNS = {
    "int8blas.DynamicMatMul": f"float[b,n,K] x => float[b,n,M] y <{WEIGHTS}> "
                              f"{{ {DYNAMIC} i = MatMulInteger(q, v, z) {SCALED} o = Add(p, a) y = Relu(o) }}",
    "com.microsoft.MatMulIntegerToFloat": f"float[b,n,K] x => float[b,n,M] y, uint8[b,n,K] c <{WEIGHTS}> "
                                          f"{{ {DYNAMIC} i = MatMulInteger(q, v, z) {SCALED} y = Add(p, a) "
                                          "c = Identity(q) }",
    "com.microsoft.MatMulIntegerToFloat, any": "uint8[b,n,k] x, int8[b,k,m] v, float[m] s => float[b,n,m] y "
                                               "{ i = MatMulInteger(x, v) f = Cast<to = 1>(i) y = Mul(f, s) }",
    "int8blas.DynamicConv": "float[n,C,H,W] x => float[n,2,4,5] y <int8[2,6,2,3] v = {$ints}, float s = {0.5}> "
                            f"{{ {DYNAMIC} i = ConvInteger(q, v, z) {SCALED} y = Relu(p) }}",
    "int8blas.ConvIntegerToFloat": "uint8[n,C,H,W] x, float s => float[n,2,4,5] y <int8[2,6,2,3] v = {$ints}> "
                                   "{ i = ConvInteger(x, v) f = Cast<to = 1>(i) p = Mul(f, s) y = Relu(p) }",
    "int8blas.ConvIntegerToFloat, any": "uint8[n,C,H,W] x, float[2,1,1] s => float[n,2,4,5] y "
                                        "<int8[2,6,2,3] v = {$ints}> "
                                        "{ i = ConvInteger(x, v) f = Cast<to = 1>(i) p = Mul(f, s) y = Relu(p) }",
    "QLinearConv": "uint8[n,C,H,W] x => uint8[n,2,4,5] y <int8[2,6,2,3] v = {$ints}, float s = {0.5}, "
                   "uint8 q = {3}, int8 r = {0}> { e = DequantizeLinear(x, s, q) w = DequantizeLinear(v, s, r) "
                   "c = Conv(e, w) y = QuantizeLinear(c, s, q) }",
    "QLinearMatMul": "uint8[b,n,K] x => uint8[b,n,M] y <int8[K,M] v = {$ints}, float s = {0.5}, uint8 q = {3}, "
                     "int8 r = {0}> { e = DequantizeLinear(x, s, q) w = DequantizeLinear(v, s, r) c = MatMul(e, w) "
                     "y = QuantizeLinear(c, s, q) }",
    "com.microsoft.QGemm": "uint8[n,K] x => uint8[n,M] y <int8[K,M] v = {$ints}, float s = {0.5}, uint8 q = {3}, "
                           "int8 r = {0}> { e = DequantizeLinear(x, s, q) w = DequantizeLinear(v, s, r) c = Gemm(e, w) "
                           "y = QuantizeLinear(c, s, q) }",
    "int8blas.QuantizedChain": "uint8[n,C,h,w] x => float[n,C,h,w] y <float s = {0.5}, uint8 q = {3}, "
                               "float[6] v = {1, 2, 3, 4, 5, 6}> { e = DequantizeLinear(x, s, q) "
                               "c = BatchNormalization(e, v, v, v, v) y = Tanh(c) }",
    "int8blas.QuantizedMatMul": "uint8[b,n,K] x => float[b,n,M] y <int8[K,M] v = {$ints}, float s = {0.5}, "
                                "uint8 q = {3}, int8 r = {0}> { e = DequantizeLinear(x, s, q) "
                                "w = DequantizeLinear(v, s, r) c = MatMul(e, w) y = Tanh(c) }",
    **{f"int8blas.Quantized{name}": f"uint8[n,C,H,W] x => float[n,2,{size}] y <int8[{shape},2,3] v = {{$ints}}, "
                                    "float s = {0.5}, uint8 q = {3}, int8 r = {0}> { e = DequantizeLinear(x, s, q) "
                                    f"w = DequantizeLinear(v, s, r) c = {name}(e, w) y = Tanh(c) }}"
       for name, shape, size in (("Conv", "2,6", "4,5"), ("ConvTranspose", "6,2", "6,9"))},
    "com.microsoft.QLinearGlobalAveragePool": f"uint8[n,c,H,W] x => uint8[n,c,1,1] y {DEQUANTIZED} "
                                              "p = GlobalAveragePool(e) y = QuantizeLinear(p, s, q) }",
    **{f"{domain}.QLinear{name}": f"uint8[n,1,m] x, uint8[k,m] z => uint8[n,k,m] y {DEQUANTIZED} "
                                  f"f = DequantizeLinear(z, s, q) p = {name}(e, f) y = QuantizeLinear(p, s, q) }}"
       for domain, names in (("com.microsoft", ("Add", "Mul")), (DOMAIN, ("Sub", "Div"))) for name in names},
    "com.microsoft.QLinearConcat": f"uint8[n,m] x, uint8[k,m] z => uint8[n+k,m] y {DEQUANTIZED} "
                                   "f = DequantizeLinear(z, s, q) p = Concat<axis = 0>(e, f) "
                                   "y = QuantizeLinear(p, s, q) }",
    "MaxPool": f"uint8[n,c,H,W] x => uint8[n,c,4,5] y {DEQUANTIZED} p = MaxPool<kernel_shape = [2, 3]>(e) "
               "y = QuantizeLinear(p, s, q) }",
    "Transpose": f"uint8[n,m] x => uint8[m,n] y {DEQUANTIZED} p = Transpose(e) y = QuantizeLinear(p, s, q) }}",
    "int8blas.Table": f"uint8[n,m] x => uint8[n,m] y {DEQUANTIZED} p = Sigmoid(e) y = QuantizeLinear(p, s, q) }}",
    "int8blas.Chain": "float[n,m] x => float[n,m] y <float s = {0.5}> { p = Mul(x, s) y = Relu(p) }",
    "int8blas.ChainOfTwo": "float[n,1,m] x, float[k,m] z => float[n,k,m] y { p = Mul(x, z) y = Relu(p) }",
    "int8blas.StoredMatMul": "float[b,n,K] x => float[b,n,M] y <int8[K,M] v = {$ints}, float s = {0.5}> "
                             "{ f = Cast<to = 1>(v) w = Mul(f, s) p = MatMul(x, w) y = Relu(p) }",
    "int8blas.StoredMatMul, dynamic": "float[b,n,K] x => float[b,n,M] y <int8[K,M] v = {$ints}, float s = {0.5}> "
                                      "{ f = Cast<to = 1>(v) w = Mul(f, s) p = MatMul(x, w) y = Relu(p) }",
    "int8blas.ParallelMatMulNBits": "float[b,n,16] x => float[b,n,4] y, float[b,n,4] z "
                                    "<uint8[4,1,8] v = {$ints}, float[4] s = {1, 2, 3, 4}> { "
                                    "y = com.microsoft.MatMulNBits<K = 16, N = 4, bits = 4, block_size = 16>(x, v, s) "
                                    "z = com.microsoft.MatMulNBits<K = 16, N = 4, bits = 4, block_size = 16>(x, v, s) "
                                    "}",
    "int8blas.ResidualNormalization": "float[n,m,k] x, float[m,k] z, float[k] s => float[n,m,k] y "
                                      "{ p = Add(x, z) y = LayerNormalization(p, s) }",
    "int8blas.Attention": "float[b,n,k] x, float[b,k,m] z, float[b,m,c] v, float[n,m] a => float[b,n,c] y "
                          "{ p = MatMul(x, z) o = Add(p, a) s = Softmax<axis = -1>(o) y = MatMul(s, v) }",
    "int8blas.View": "float[n,m,4] x => float[4,n,m] y <int64[3] s = {4, $m, $n}> "
                     "{ p = Transpose<perm = [2, 1, 0]>(x) o = Reshape<allowzero = 1>(p, s) "
                     "r = Transpose<perm = [0, 2, 1]>(o) y = Neg(r) }",
    "com.microsoft.Gelu": "float[n,m] x => float[n,m] y <float r = {1.4142135}, float o = {1}, float l = {0.5}> "
                          "{ p = Div(x, r) e = Erf(p) f = Add(e, o) c = Mul(x, f) y = Mul(c, l) }",
    "Conv": "float[n,C,H,W] x => float[n,2,4,5] y <float[2,6,2,3] v = {$ones}, float[2] s = {1, 2}> "
            "{ p = Conv(x, v) y = BatchNormalization(p, s, s, s, s) }",
}  # fmt: skip

# The values of nonempty results of empty inputs: a reduction or product over nothing.
OF_NOTHING = {
    "ReduceSum": 0, "ReduceSumSquare": 0, "ReduceL1": 0, "ReduceL2": 0, "ReduceProd": 1, "ReduceMax": -np.inf,
    "ReduceMin": np.inf, "ReduceMean": np.nan, "ReduceLogSum": -np.inf, "ReduceLogSumExp": -np.inf, "MatMul": 0,
    "MatMulInteger": 0, "Einsum": 0, "ConvInteger": 0,
}  # fmt: skip
GRAPH = re.compile(r"(?:@(\d+) )?(.*?) => (.*?) ([<{].*)")
PORT = re.compile(r"(\w+)(?:\[([^\]]*)\])? (\w+)")


def parsed(ports, sizes):
    """Return the name, type and shape of each tensor."""
    found = []
    for kind, dims, name in PORT.findall(ports):
        shape = tuple(eval(dim, {}, sizes) for dim in dims.split(",")) if dims else ()
        found.append((name, np.dtype(KINDS.get(kind, kind)), shape))
    return found


def case(text, empty):
    """Return a model, its feeds and its expected outputs, with one size 0."""
    sizes = {name: 0 if name == empty else size for name, size in SIZES.items()}
    version, ports, results, body = GRAPH.fullmatch(text).groups()
    inputs, outputs = parsed(ports, sizes), parsed(results, sizes)
    body = re.sub(r"\$([a-z])\b", lambda found: str(sizes[found[1]]), body)
    body = re.sub(r"\[([\w,]+)\] (\w+) = \{\$(ints|ones)\}", lambda found: filled(found, sizes), body)
    names = {dtype: kind for kind, dtype in KINDS.items()}
    given = ", ".join(f"{names.get(d.name, d.name)}{[*s] if s else ''} {name}" for name, d, s in inputs)
    text = f"g ({given}) => ({', '.join(name for name, _, _ in outputs)}) {body}"
    return model_of(text, int(version or NEWEST), True), {name: value(d, s) for name, d, s in inputs}, outputs


def filled(found, sizes):
    """Return a constant with equal elements."""
    shape = [eval(dim, {}, sizes) for dim in found[1].split(",")]
    number = {"ints": "1", "ones": "0.5"}[found[3]]
    return f"{shape} {found[2]} = {{{', '.join([number] * int(np.prod(shape)))}}}"


def value(dtype, shape):
    """Return numbers from 1 on; integers are 0, a valid index of every nonempty dimension."""
    if dtype.hasobject:
        return np.full(shape, "a", object)
    return np.asarray(np.arange(np.prod(shape)).reshape(shape) % 7 + 1 if dtype.kind == "f" else np.zeros(shape), dtype)


def sizes_of(text):
    """Return None, and each size that may be 0."""
    ports = GRAPH.fullmatch(text)[2]
    return [None, *sorted({name for _, dims, _ in PORT.findall(ports) for name in re.findall("[a-z]", dims)})]


def params(cases):
    return [
        pytest.param(name, text, empty, id=f"{name}-{empty}")
        for name, text in cases.items()
        for empty in sizes_of(text)
    ]


def check(model, feeds, outputs, of_nothing=None, **options):
    loaded = int8blas.onnx.load(model, **options)
    results = loaded.run(None, feeds)
    for (name, dtype, shape), result in zip(outputs, results, strict=True):
        assert (name, result.dtype, result.shape) == (name, dtype, shape)
        if of_nothing is not None and result.size and not all(value.size for value in feeds.values()):
            np.testing.assert_array_equal(result, np.full(shape, of_nothing, dtype))
    return loaded


@pytest.mark.parametrize(("name", "text", "empty"), params(CASES))
def test_operators_take_empty_inputs(name, text, empty):
    check(*case(text, empty), OF_NOTHING.get(name))


@pytest.mark.parametrize(("name", "text", "empty"), params(PATTERNS))
def test_patterns_take_empty_inputs(name, text, empty):
    operator, _, variant = name.partition(", ")
    model = check(*case(text, empty), dynamic=variant == "dynamic")
    assert operator in [call.operator for call in model.explain()]


@pytest.mark.parametrize("sizes", ["2,3", "2,d"])
def test_a_loop_without_turns_has_the_type_and_sizes_of_its_body(sizes):
    """As in onnxruntime, sizes that the body leaves open are 0."""
    model = model_of(f"""g (int64 l, int8[2,3] x) => (y, z) {{ y, z = Loop(l, , x) <
        body = b (int64 i, bool c, int8[2,3] p)
        => (bool d, int8[2,3] q, int8[{sizes}] r) {{ d = Identity(c) q = Identity(p) r = Identity(p) }}> }}""")
    y, z = int8blas.onnx.load(model).run(None, {"l": np.array(0), "x": np.ones((2, 3), np.int8)})
    assert y.tolist() == [[1] * 3] * 2
    assert (z.dtype, z.shape) == (np.int8, (0, 2, 3 if sizes == "2,3" else 0))


def test_every_operator_has_a_case():
    rows = {f"{domain}.{name}" if domain else name for domain, name in TABLE.rows}
    patterns = {name.partition(", ")[0] for name in PATTERNS if name.startswith(f"{DOMAIN}.")}
    # test_onnx_learning.py has the cases of ai.onnx.ml.
    assert {name for name in rows if not name.startswith((f"{DOMAIN}.", LEARNING))} - {*CASES} == set()
    # onnxruntime computes the nodes of an Onnxruntime: see test_onnx_islands.py.
    assert {name for name in rows if name.startswith(f"{DOMAIN}.")} - patterns == {f"{DOMAIN}.Onnxruntime"}
