/* One int8 product by oneDNN's matmul or inner-product primitive, bare or with its quantized epilogue, one
 * convolution with it, or one stack of recurrent layers, so that Python makes one call per run.
 *
 * Declares the few entry points of oneDNN's C API that it uses (names, enumerators and layouts are part of the ABI of
 * version 3), because the run-time packages of oneDNN come without headers. Link with libdnnl.so.3.
 */
#include <stdint.h>
#include <stdlib.h>

typedef int64_t dims_t[12];
typedef struct {
    int arg;
    void *memory;
} exec_arg_t;

enum { SUCCESS = 0, CPU = 1, STREAM_DEFAULT = 1, FORWARD_INFERENCE = 96, CONVOLUTION_DIRECT = 1 };
enum { LEFT_TO_RIGHT = 1, BIDIRECTIONAL_CONCAT = 3 };
enum { QUERY_IMPLEMENTATION = 8, QUERY_WEIGHTS = 131 };
enum { F32 = 3, S32 = 4, S8 = 5, U8 = 6 };           /* data types */
/* Format tags: oneDNN chooses; row-major in one to five dimensions; column-major. */
enum { ANY = 1, A = 2, AB = 3, ABC = 4, ABCD = 5, ABCDE = 6, BA = 14 };
enum { ARG_SRC = 1, ARG_DST = 17, ARG_WEIGHTS = 33, ARG_WEIGHTS_ITER = 34, ARG_BIAS = 41 };
enum { ARG_SCALES = 4096, ARG_ZERO_POINTS = 8192 };
enum { ELTWISE_RELU = 32 };
#define ALLOCATE ((void *)(size_t)-1)

int dnnl_engine_create(void **engine, int kind, size_t index);
int dnnl_engine_destroy(void *engine);
int dnnl_stream_create(void **stream, void *engine, unsigned flags);
int dnnl_stream_wait(void *stream);
int dnnl_stream_destroy(void *stream);
int dnnl_memory_desc_create_with_tag(void **desc, int ndims, const dims_t dims, int type, int tag);
int dnnl_memory_desc_create_with_strides(void **desc, int ndims, const dims_t dims, int type, const dims_t strides);
int dnnl_memory_desc_destroy(void *desc);
int dnnl_memory_create(void **memory, const void *desc, void *engine, void *handle);
int dnnl_memory_destroy(void *memory);
int dnnl_matmul_primitive_desc_create(void **pd, void *engine, const void *src, const void *weights, const void *bias,
                                      const void *dst, const void *attr);
int dnnl_inner_product_forward_primitive_desc_create(void **pd, void *engine, int prop_kind, const void *src,
                                                     const void *weights, const void *bias, const void *dst,
                                                     const void *attr);
int dnnl_convolution_forward_primitive_desc_create(void **pd, void *engine, int prop_kind, int algorithm,
                                                   const void *src, const void *weights, const void *bias,
                                                   const void *dst, const dims_t strides, const dims_t dilates,
                                                   const dims_t padding_l, const dims_t padding_r, const void *attr);
int dnnl_lstm_forward_primitive_desc_create(void **pd, void *engine, int prop_kind, int direction,
                                            const void *src_layer, const void *src_iter, const void *src_iter_c,
                                            const void *weights_layer,
                                            const void *weights_iter, const void *weights_peephole,
                                            const void *weights_projection, const void *bias, const void *dst_layer,
                                            const void *dst_iter, const void *dst_iter_c, unsigned flags,
                                            const void *attr);
int dnnl_gru_forward_primitive_desc_create(void **pd, void *engine, int prop_kind, int direction, const void *src_layer,
                                           const void *src_iter, const void *weights_layer, const void *weights_iter,
                                           const void *bias, const void *dst_layer, const void *dst_iter,
                                           unsigned flags, const void *attr);
int dnnl_reorder_primitive_desc_create(void **pd, const void *src, void *src_engine, const void *dst, void *dst_engine,
                                       const void *attr);
int dnnl_primitive_attr_create(void **attr);
int dnnl_primitive_attr_destroy(void *attr);
int dnnl_primitive_attr_set_scales_mask(void *attr, int arg, int mask);
int dnnl_primitive_attr_set_zero_points_mask(void *attr, int arg, int mask);
int dnnl_primitive_attr_set_rnn_data_qparams(void *attr, float scale, float shift);
int dnnl_primitive_attr_set_rnn_weights_qparams(void *attr, int64_t count, int mask, const float *scales);
int dnnl_primitive_attr_set_post_ops(void *attr, const void *post_ops);
int dnnl_post_ops_create(void **post_ops);
int dnnl_post_ops_append_eltwise(void *post_ops, int algorithm, float alpha, float beta);
int dnnl_post_ops_destroy(void *post_ops);
const void *dnnl_primitive_desc_query_md(const void *pd, int what, int index);
int dnnl_primitive_desc_query(const void *pd, int what, int index, void *result);
int dnnl_primitive_desc_destroy(void *pd);
int dnnl_primitive_create(void **primitive, const void *pd);
int dnnl_primitive_execute(const void *primitive, void *stream, int nargs, const exec_arg_t *args);
int dnnl_primitive_destroy(void *primitive);

/* The arrays of a primitive, which stay the caller's and must outlive the plan.
 *
 * Without `weight_scales` dst is the int32 sum. With them dst is uint8: y = src_scale * weight_scales[output] * sum of
 * (src - src_zero_point) * weights + bias[output]; dst = max(y, 0) / dst_scale + dst_zero_point, rounded. A null bias
 * or zero point counts as 0. */
typedef struct {
    void *src, *weights, *dst;
    float *bias, *src_scale, *weight_scales, *dst_scale;
    int32_t *src_zero_point, *dst_zero_point;
} operands_t;

/* dst (m x n) = src (m x k) @ weights (k x n, int8), all row-major; `outputs_first`: the weights are stored as (n x k).
 * `packed` lets the primitive choose the layout of the weights, and copies them into it when the plan is made. */
typedef struct {
    int32_t inner_product, packed, src_signed, outputs_first;
    int64_t m, n, k;
    operands_t operands;
} product_t;

/* dst (batch, oh, ow, oc) = src (batch, h, w, ic; uint8) * weights (oc, ic / groups, kh, kw; int8), in a layout of the
 * primitive's choice; with `top` and `left` zeros on either side of a dimension. */
typedef struct {
    int64_t batch, h, w, ic, kh, kw, oc, oh, ow, stride, top, left, dilation, groups;
    operands_t operands;
} convolution_t;

/* dst (t, n, directions * units; uint8) = LSTM or GRU of src (t, n, input; uint8), from states of zero. weights_layer
 * (layers, directions, input, gates, units; int8), weights_iter (layers, directions, units, gates, units; int8), bias
 * (layers, directions, gates, units); with more than one layer, input is directions * units. A weight is its float32
 * value * weights_scale[gate, unit], rounded; src and dst are theirs * data_scale + data_shift. */
typedef struct {
    int32_t gru;
    int64_t t, n, input, units, layers, directions;
    void *src, *weights_layer, *weights_iter, *dst;
    float *bias, *weights_scale, *data_scale, *data_shift;
} recurrent_t;

enum { MAX_ARGS = 9 };

typedef struct {
    void *engine, *stream, *pd, *primitive;
    const char *implementation;
    int nargs;
    exec_arg_t args[MAX_ARGS]; /* owns their memories */
} plan_t;

int onednn_run(const plan_t *plan)
{
    const int status = dnnl_primitive_execute(plan->primitive, plan->stream, plan->nargs, plan->args);
    return status == SUCCESS ? dnnl_stream_wait(plan->stream) : status;
}

const char *onednn_implementation(const plan_t *plan)
{
    return plan->implementation;
}

void onednn_destroy(plan_t *plan)
{
    for (int index = 0; index < plan->nargs; index++)
        dnnl_memory_destroy(plan->args[index].memory);
    if (plan->primitive) dnnl_primitive_destroy(plan->primitive);
    if (plan->pd) dnnl_primitive_desc_destroy(plan->pd);
    if (plan->stream) dnnl_stream_destroy(plan->stream);
    if (plan->engine) dnnl_engine_destroy(plan->engine);
    free(plan);
}

/* Make memory an argument of the plan; with ALLOCATE oneDNN allocates it. */
static int add_argument(plan_t *plan, int arg, const void *desc, void *data)
{
    void *memory = NULL;
    const int status = dnnl_memory_create(&memory, desc, plan->engine, data);
    if (status == SUCCESS) plan->args[plan->nargs++] = (exec_arg_t){arg, memory};
    return status;
}

/* Set an argument that is a vector of `count` elements; null data means that there is no such argument. */
static int add_vector(plan_t *plan, int arg, int type, int64_t count, void *data)
{
    void *desc = NULL;
    if (!data) return SUCCESS;
    int status = dnnl_memory_desc_create_with_tag(&desc, 1, (const dims_t){count}, type, A);
    if (status == SUCCESS) status = add_argument(plan, arg, desc, data);
    if (desc) dnnl_memory_desc_destroy(desc);
    return status;
}

/* Add the weights of an argument, described by `plain`, in the layout that the primitive asks for. */
static int add_packed_weights(plan_t *plan, int arg, const void *plain, void *weights)
{
    void *source = NULL, *pd = NULL, *reorder = NULL;
    const void *wanted = dnnl_primitive_desc_query_md(plan->pd, QUERY_WEIGHTS, arg - ARG_WEIGHTS);
    int status = add_argument(plan, arg, wanted, ALLOCATE);
    if (status != SUCCESS) return status;
    void *packed = plan->args[plan->nargs - 1].memory;
    status = dnnl_memory_create(&source, plain, plan->engine, weights);
    if (status == SUCCESS)
        status = dnnl_reorder_primitive_desc_create(&pd, plain, plan->engine, wanted, plan->engine, NULL);
    if (status == SUCCESS) status = dnnl_primitive_create(&reorder, pd);
    if (status == SUCCESS) {
        const exec_arg_t args[2] = {{ARG_SRC, source}, {ARG_DST, packed}};
        status = dnnl_primitive_execute(reorder, plan->stream, 2, args);
    }
    if (status == SUCCESS) status = dnnl_stream_wait(plan->stream);
    if (reorder) dnnl_primitive_destroy(reorder);
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (source) dnnl_memory_destroy(source);
    return status;
}

/* The attributes of a requantizing primitive: scales, zero points, ReLU. Bit i of a mask selects dimension i. */
static int set_epilogue(void *attr, const operands_t *o, int weights_mask)
{
    void *post_ops = NULL;
    int status = dnnl_primitive_attr_set_scales_mask(attr, ARG_SRC, 0);
    if (status == SUCCESS) status = dnnl_primitive_attr_set_scales_mask(attr, ARG_WEIGHTS, weights_mask);
    if (status == SUCCESS) status = dnnl_primitive_attr_set_scales_mask(attr, ARG_DST, 0);
    if (status == SUCCESS && o->src_zero_point) status = dnnl_primitive_attr_set_zero_points_mask(attr, ARG_SRC, 0);
    if (status == SUCCESS && o->dst_zero_point) status = dnnl_primitive_attr_set_zero_points_mask(attr, ARG_DST, 0);
    if (status == SUCCESS) status = dnnl_post_ops_create(&post_ops);
    if (status == SUCCESS) status = dnnl_post_ops_append_eltwise(post_ops, ELTWISE_RELU, 0, 0);
    if (status == SUCCESS) status = dnnl_primitive_attr_set_post_ops(attr, post_ops);
    if (post_ops) dnnl_post_ops_destroy(post_ops);
    return status;
}

/* The descriptions from which a primitive is created. `plain` describes the caller's weights, and `weights` the layout
 * that the primitive wants. `weights` is null if both layouts are equal. */
typedef struct {
    void *src, *plain, *weights, *bias, *dst, *attr;
    void *plain_iter, *weights_iter; /* of the state, in recurrent layers */
} descs_t;

static int begin(plan_t *plan, descs_t *d)
{
    int status = dnnl_engine_create(&plan->engine, CPU, 0);
    if (status == SUCCESS) status = dnnl_stream_create(&plan->stream, plan->engine, STREAM_DEFAULT);
    if (status == SUCCESS) status = dnnl_primitive_attr_create(&d->attr);
    return status;
}

/* Make the primitive of plan->pd. */
static int create_primitive(plan_t *plan)
{
    const int status = dnnl_primitive_create(&plan->primitive, plan->pd);
    if (status == SUCCESS)
        dnnl_primitive_desc_query(plan->pd, QUERY_IMPLEMENTATION, 0, (void *)&plan->implementation);
    return status;
}

/* Make the primitive of plan->pd and bind its arguments. */
static int bind_arguments(plan_t *plan, const descs_t *d, const operands_t *o, int64_t outputs)
{
    int status = create_primitive(plan);
    if (status == SUCCESS) status = add_argument(plan, ARG_SRC, d->src, o->src);
    if (status == SUCCESS)
        status = d->weights ? add_packed_weights(plan, ARG_WEIGHTS, d->plain, o->weights)
                            : add_argument(plan, ARG_WEIGHTS, d->plain, o->weights);
    if (status == SUCCESS) status = add_argument(plan, ARG_DST, d->dst, o->dst);
    if (status == SUCCESS && o->bias) status = add_argument(plan, ARG_BIAS, d->bias, o->bias);
    if (status == SUCCESS) status = add_vector(plan, ARG_SCALES | ARG_SRC, F32, 1, o->src_scale);
    if (status == SUCCESS) status = add_vector(plan, ARG_SCALES | ARG_WEIGHTS, F32, outputs, o->weight_scales);
    if (status == SUCCESS) status = add_vector(plan, ARG_SCALES | ARG_DST, F32, 1, o->dst_scale);
    if (status == SUCCESS) status = add_vector(plan, ARG_ZERO_POINTS | ARG_SRC, S32, 1, o->src_zero_point);
    if (status == SUCCESS) status = add_vector(plan, ARG_ZERO_POINTS | ARG_DST, S32, 1, o->dst_zero_point);
    return status;
}

/* Free the descriptions, which only the creation needed. Return the plan, or NULL if the creation failed. */
static plan_t *finish(plan_t *plan, const descs_t *d, int status)
{
    void *const descs[] = {d->src, d->plain, d->weights, d->bias, d->dst, d->plain_iter, d->weights_iter};
    for (size_t index = 0; index < sizeof descs / sizeof *descs; index++)
        if (descs[index]) dnnl_memory_desc_destroy(descs[index]);
    if (d->attr) dnnl_primitive_attr_destroy(d->attr);
    if (status == SUCCESS) return plan;
    onednn_destroy(plan);
    return NULL;
}

/* A plan for a product; NULL if oneDNN cannot do it. */
plan_t *onednn_create_product(const product_t *p)
{
    plan_t *plan = calloc(1, sizeof *plan);
    if (!plan) return NULL;
    const operands_t *o = &p->operands;
    const int quantized = o->weight_scales != NULL;
    /* The logical shape of the weights is (n, k) for inner product and (k, n) for matmul. */
    const int plain_tag = p->inner_product == p->outputs_first ? AB : BA;
    const dims_t src_dims = {p->m, p->k}, dst_dims = {p->m, p->n};
    const dims_t weights_dims = {p->inner_product ? p->n : p->k, p->inner_product ? p->k : p->n};
    const dims_t bias_dims = {p->inner_product ? p->n : 1, p->n};
    descs_t d = {0};
    int status = begin(plan, &d);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&d.src, 2, src_dims, p->src_signed ? S8 : U8, AB);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&d.plain, 2, weights_dims, S8, plain_tag);
    if (status == SUCCESS && p->packed)
        status = dnnl_memory_desc_create_with_tag(&d.weights, 2, weights_dims, S8, ANY);
    if (status == SUCCESS && o->bias)
        status = dnnl_memory_desc_create_with_tag(&d.bias, 2 - p->inner_product, bias_dims, F32,
                                                  p->inner_product ? A : AB);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&d.dst, 2, dst_dims, quantized ? U8 : S32, AB);
    if (status == SUCCESS && quantized) status = set_epilogue(d.attr, o, p->inner_product ? 1 : 2);
    const void *weights = d.weights ? d.weights : d.plain;
    if (status == SUCCESS && p->inner_product)
        status = dnnl_inner_product_forward_primitive_desc_create(&plan->pd, plan->engine, FORWARD_INFERENCE, d.src,
                                                                  weights, d.bias, d.dst, d.attr);
    else if (status == SUCCESS)
        status = dnnl_matmul_primitive_desc_create(&plan->pd, plan->engine, d.src, weights, d.bias, d.dst, d.attr);
    if (status == SUCCESS) status = bind_arguments(plan, &d, o, p->n);
    return finish(plan, &d, status);
}

/* An array (batch, height, width, channels), whose logical order is (batch, channels, height, width). */
static int describe_nhwc(void **desc, int64_t batch, int64_t height, int64_t width, int64_t channels)
{
    const dims_t dims = {batch, channels, height, width};
    const dims_t strides = {height * width * channels, 1, width * channels, channels};
    return dnnl_memory_desc_create_with_strides(desc, 4, dims, U8, strides);
}

/* A plan for a convolution; NULL if oneDNN cannot do it. */
plan_t *onednn_create_convolution(const convolution_t *p)
{
    plan_t *plan = calloc(1, sizeof *plan);
    if (!plan) return NULL;
    /* With groups the logical weights have a dimension more, (groups, oc / groups, ic / groups, kh, kw). */
    const int grouped = p->groups > 1;
    const dims_t weights_dims = {p->groups, p->oc / p->groups, p->ic / p->groups, p->kh, p->kw};
    const int64_t *const dims = weights_dims + !grouped;
    const dims_t strides = {p->stride, p->stride}, padding = {p->top, p->left};
    const dims_t dilates = {p->dilation - 1, p->dilation - 1};
    descs_t d = {0};
    int status = begin(plan, &d);
    if (status == SUCCESS) status = describe_nhwc(&d.src, p->batch, p->h, p->w, p->ic);
    if (status == SUCCESS) status = describe_nhwc(&d.dst, p->batch, p->oh, p->ow, p->oc);
    if (status == SUCCESS)
        status = dnnl_memory_desc_create_with_tag(&d.plain, 4 + grouped, dims, S8, grouped ? ABCDE : ABCD);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&d.weights, 4 + grouped, dims, S8, ANY);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&d.bias, 1, (const dims_t){p->oc}, F32, A);
    if (status == SUCCESS) status = set_epilogue(d.attr, &p->operands, grouped ? 1 | 2 : 1);
    if (status == SUCCESS)
        status = dnnl_convolution_forward_primitive_desc_create(&plan->pd, plan->engine, FORWARD_INFERENCE,
                                                                CONVOLUTION_DIRECT, d.src, d.weights, d.bias, d.dst,
                                                                strides, dilates, padding, padding, d.attr);
    if (status == SUCCESS) status = bind_arguments(plan, &d, &p->operands, p->oc);
    return finish(plan, &d, status);
}

/* A plan for recurrent layers; NULL if oneDNN cannot do them. */
plan_t *onednn_create_recurrent(const recurrent_t *p)
{
    plan_t *plan = calloc(1, sizeof *plan);
    if (!plan) return NULL;
    enum { GATES_AND_UNITS = 1 << 3 | 1 << 4 }; /* the dimensions of the weights that their scales belong to */
    const int64_t gates = p->gru ? 3 : 4;
    const int direction = p->directions == 2 ? BIDIRECTIONAL_CONCAT : LEFT_TO_RIGHT;
    const dims_t src_dims = {p->t, p->n, p->input}, dst_dims = {p->t, p->n, p->directions * p->units};
    const dims_t layer_dims = {p->layers, p->directions, p->input, gates, p->units};
    const dims_t iter_dims = {p->layers, p->directions, p->units, gates, p->units};
    const dims_t bias_dims = {p->layers, p->directions, gates, p->units};
    descs_t d = {0};
    int status = begin(plan, &d);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&d.src, 3, src_dims, U8, ABC);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&d.plain, 5, layer_dims, S8, ABCDE);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&d.weights, 5, layer_dims, S8, ANY);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&d.plain_iter, 5, iter_dims, S8, ABCDE);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&d.weights_iter, 5, iter_dims, S8, ANY);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&d.bias, 4, bias_dims, F32, ABCD);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&d.dst, 3, dst_dims, U8, ABC);
    if (status == SUCCESS) status = dnnl_primitive_attr_set_rnn_data_qparams(d.attr, *p->data_scale, *p->data_shift);
    if (status == SUCCESS)
        status = dnnl_primitive_attr_set_rnn_weights_qparams(d.attr, gates * p->units, GATES_AND_UNITS,
                                                             p->weights_scale);
    if (status == SUCCESS && p->gru)
        status = dnnl_gru_forward_primitive_desc_create(&plan->pd, plan->engine, FORWARD_INFERENCE, direction, d.src,
                                                        NULL, d.weights, d.weights_iter, d.bias, d.dst, NULL, 0,
                                                        d.attr);
    else if (status == SUCCESS)
        status = dnnl_lstm_forward_primitive_desc_create(&plan->pd, plan->engine, FORWARD_INFERENCE, direction, d.src,
                                                         NULL, NULL, d.weights, d.weights_iter, NULL, NULL, d.bias,
                                                         d.dst, NULL, NULL, 0, d.attr);
    if (status == SUCCESS) status = create_primitive(plan);
    if (status == SUCCESS) status = add_argument(plan, ARG_SRC, d.src, p->src);
    if (status == SUCCESS) status = add_packed_weights(plan, ARG_WEIGHTS, d.plain, p->weights_layer);
    if (status == SUCCESS) status = add_packed_weights(plan, ARG_WEIGHTS_ITER, d.plain_iter, p->weights_iter);
    if (status == SUCCESS) status = add_argument(plan, ARG_BIAS, d.bias, p->bias);
    if (status == SUCCESS) status = add_argument(plan, ARG_DST, d.dst, p->dst);
    return finish(plan, &d, status);
}
