"""The attributes in ONNX's schemas of the operators. onnx.defs also has these attributes, but its first use registers
all schemas, which takes longer than loading a small file.
"""

from __future__ import annotations

from int8blas.onnx.types import cached

# The letters of ONNX's types of attributes. "!" marks a required attribute.
LETTERS = {"f": 1, "i": 2, "s": 3, "t": 4, "g": 5, "F": 6, "I": 7, "S": 8, "p": 11, "y": 13}
# For operators with the same attributes: the versions that change the attributes, each followed by all attributes with
# their types. A version with "+" is followed only by the attributes that the version adds.
TEXT = """
Abs,Ceil,Exp,Floor,Log,Max,Mean,Min,Neg,Reciprocal,Relu,Sigmoid,Sqrt,Sum,Tanh,Tile 6;
Acos,Add,And,Asin,Atan,Cos,Div,Equal,Greater,Less,Mul,Or,PRelu,Pow,Sin,Sub,Tan,Xor 7;
Acosh,Asinh,Atanh,Cosh,Erf,IsNaN,NonZero,Sign,Sinh,Where 9; AffineGrid 20 align_corners:i; ArgMax,ArgMin 1 axis:i
keepdims:i 12+ select_last_index:i; Attention 23 is_causal:i kv_num_heads:i q_num_heads:i qk_matmul_output_mode:i
scale:f softcap:f softmax_precision:i 25+ left_window_size:i right_window_size:i; AveragePool 1 auto_pad:s
kernel_shape:I! pads:I strides:I 7+ count_include_pad:i 10+ ceil_mode:i 19+ dilations:I; BatchNormalization 7 epsilon:f
momentum:f spatial:i 9 epsilon:f momentum:f 14+ training_mode:i; Bernoulli 15 dtype:i seed:f; BitCast 26 to:i!; BitShift
11 direction:s!; BitwiseAnd,BitwiseNot,BitwiseOr,BitwiseXor,Mish 18; BlackmanWindow,HammingWindow,HannWindow 17
output_datatype:i periodic:i; Cast 6 to:i! 19+ saturate:i 24+ round_mode:s; CastLike 15 19+ saturate:i 24+ round_mode:s;
Celu 12 alpha:f; CenterCropPad 18 axes:I; Clip 6 max:f min:f 11; Col2Im 18 dilations:I pads:I strides:I;
Compress,OneHot,Scatter 9 axis:i; Concat 4 axis:i!; ConcatFromSequence 11 axis:i! new_axis:i; Constant 1 value:t! 11
sparse_value:p value:t 12+ value_float:f value_floats:F value_int:i value_ints:I value_string:s value_strings:S;
ConstantOfShape 9 value:t; Conv 1 auto_pad:s dilations:I group:i kernel_shape:I pads:I strides:I;
ConvInteger,QLinearConv 10 auto_pad:s dilations:I group:i kernel_shape:I pads:I strides:I; ConvTranspose 1 auto_pad:s
dilations:I group:i kernel_shape:I output_padding:I output_shape:I pads:I strides:I; CumProd 26 exclusive:i reverse:i;
CumSum 11 exclusive:i reverse:i; DFT 17 axis:i inverse:i onesided:i 20 inverse:i onesided:i; DeformConv 19 dilations:I
group:i kernel_shape:I offset_group:i pads:I strides:I; DepthToSpace 1 blocksize:i! 11+ mode:s; DequantizeLinear 10 13+
axis:i 21+ block_size:i 23+ output_dtype:i;
Det,DynamicQuantizeLinear,Round,SequenceAt,SequenceConstruct,SequenceErase,SequenceInsert,SequenceLength 11; Dropout 7
ratio:f 12 seed:i; Einsum 12 equation:s!; Elu,LeakyRelu 6 alpha:f; Expand 8; EyeLike 9 dtype:i k:i;
Flatten,Gather,Hardmax,LogSoftmax,Softmax 1 axis:i; GRU 7 activation_alpha:F activation_beta:F activations:S clip:f
direction:s hidden_size:i linear_before_reset:i 14+ layout:i; GatherElements 11 axis:i; GatherND 11 12+ batch_dims:i;
Gelu 20 approximate:s; Gemm 7 alpha:f beta:f transA:i transB:i;
GlobalAveragePool,GlobalMaxPool,Identity,MatMul,Not,Size,Softplus,Softsign 1; GlobalLpPool 2 p:i;
GreaterOrEqual,LessOrEqual 12; GridSample 16 align_corners:i mode:s padding_mode:s; GroupNormalization 21 epsilon:f
num_groups:i! stash_type:i; HardSigmoid 6 alpha:f beta:f; HardSwish 14; If 1 else_branch:g! then_branch:g!;
InstanceNormalization 6 epsilon:f; IsInf 10 detect_negative:i detect_positive:i; LRN 1 alpha:f beta:f bias:f size:i!;
LSTM 7 activation_alpha:F activation_beta:F activations:S clip:f direction:s hidden_size:i input_forget:i 14+ layout:i;
LayerNormalization 17 axis:i epsilon:f stash_type:i; Loop 1 body:g!; LpNormalization 1 axis:i p:i; LpPool 2 auto_pad:s
kernel_shape:I! p:i pads:I strides:I 18+ ceil_mode:i dilations:I; MatMulInteger,QLinearMatMul 10; MaxPool 1 auto_pad:s
kernel_shape:I! pads:I strides:I 8+ storage_order:i 10+ ceil_mode:i dilations:I; MaxRoiPool 1 pooled_shape:I!
spatial_scale:f; MaxUnpool 9 kernel_shape:I! pads:I strides:I; MeanVarianceNormalization 9 axes:I; MelWeightMatrix 17
output_datatype:i; Mod 10 fmod:i; Multinomial 7 dtype:i sample_size:i seed:f;
NegativeLogLikelihoodLoss,SoftmaxCrossEntropyLoss 12 ignore_index:i reduction:s; NonMaxSuppression 10
center_point_box:i; Optional 15 type:y; OptionalGetElement,OptionalHasElement 15; Pad 2 mode:s pads:I! value:f 11
mode:s; QuantizeLinear 10 13+ axis:i 19+ saturate:i 21+ block_size:i output_dtype:i 23+ precision:i; RMSNormalization 23
axis:i epsilon:f stash_type:i; RNN 7 activation_alpha:F activation_beta:F activations:S clip:f direction:s hidden_size:i
14+ layout:i; RandomNormal 1 dtype:i mean:f scale:f seed:f shape:I!; RandomNormalLike 1 dtype:i mean:f scale:f seed:f;
RandomUniform 1 dtype:i high:f low:f seed:f shape:I!; RandomUniformLike 1 dtype:i high:f low:f seed:f; Range 11 27+
stash_type:i; ReduceL1,ReduceL2,ReduceLogSum,ReduceLogSumExp,ReduceMax,ReduceMean,ReduceMin,ReduceProd,ReduceSumSquare 1
axes:I keepdims:i 18 keepdims:i noop_with_empty_axes:i; ReduceSum 1 axes:I keepdims:i 13 keepdims:i
noop_with_empty_axes:i; RegexFullMatch 20 pattern:s; Reshape 5 14+ allowzero:i; Resize 10 mode:s 11+
coordinate_transformation_mode:s cubic_coeff_a:f exclude_outside:i extrapolation_value:f nearest_mode:s 18+ antialias:i
axes:I keep_aspect_ratio_policy:s; ReverseSequence 10 batch_axis:i time_axis:i; RoiAlign 10 mode:s output_height:i
output_width:i sampling_ratio:i spatial_scale:f 16+ coordinate_transformation_mode:s; RotaryEmbedding 23 interleaved:i
num_heads:i rotary_embedding_dim:i; STFT 17 onesided:i; Scan 8 body:g! directions:I num_scan_inputs:i! 9 body:g!
num_scan_inputs:i! scan_input_axes:I scan_input_directions:I scan_output_axes:I scan_output_directions:I;
ScatterElements 11 axis:i 16+ reduction:s; ScatterND 11 16+ reduction:s; Selu 6 alpha:f gamma:f; SequenceEmpty 11
dtype:i; SequenceMap 17 body:g!; Shape 1 15+ end:i start:i; Shrink 9 bias:f lambd:f; Slice 1 axes:I ends:I! starts:I!
10; SpaceToDepth 1 blocksize:i! 28+ mode:s; Split 2 axis:i split:I 13 axis:i 18+ num_outputs:i; SplitToSequence 11
axis:i keepdims:i; Squeeze 1 axes:I 13; StringConcat 20; StringNormalizer 10 case_change_action:s is_case_sensitive:i
locale:s stopwords:S; StringSplit 20 delimiter:s maxsplit:i; SwiGLU 28 alpha:f; Swish 24 alpha:f; TensorScatter 24
axis:i mode:s; TfIdfVectorizer 9 max_gram_length:i! max_skip_count:i! min_gram_length:i! mode:s! ngram_counts:I!
ngram_indexes:I! pool_int64s:I pool_strings:S weights:F; ThresholdedRelu 10 alpha:f; TopK 1 axis:i k:i! 10 axis:i 11+
largest:i sorted:i; Transpose 1 perm:I; Trilu 14 upper:i; Unique 11 axis:i sorted:i; Unsqueeze 1 axes:I! 13; Upsample 7
mode:s scales:F! 9 mode:s
"""
# The attributes of a schema: their types, and whether they are required.
Attributes = dict[str, tuple[int, bool]]


@cached
def entries() -> dict[str, list[str]]:
    """Return the words after each operator's name."""
    return {name: words[1:] for words in map(str.split, TEXT.split(";")) for name in words[0].split(",")}


@cached
def declared_attributes(operator: str, version: int) -> Attributes | None:
    """Return the attributes of an operator in a version of ONNX, or None if the text lacks the version."""
    found: Attributes | None = None
    for word in entries().get(operator, ()):
        name, _, kind = word.partition(":")
        if kind and found is not None:
            found[name] = LETTERS[kind[0]], kind[1:] == "!"
        elif int(word.rstrip("+")) > version:
            break
        elif found is None or not word.endswith("+"):
            found = {}
    return found
