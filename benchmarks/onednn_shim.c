/* One int8 product by oneDNN's matmul or inner-product primitive, so that Python makes one call per run.
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

enum { SUCCESS = 0, CPU = 1, STREAM_DEFAULT = 1, FORWARD_INFERENCE = 96, QUERY_IMPLEMENTATION = 8, QUERY_WEIGHTS = 131 };
enum { S32 = 4, S8 = 5, U8 = 6 };                    /* data types */
enum { ANY = 1, AB = 3, BA = 14 };                   /* format tags: chosen by oneDNN, row-major, column-major */
enum { ARG_SRC = 1, ARG_DST = 17, ARG_WEIGHTS = 33 };
#define ALLOCATE ((void *)(size_t)-1)

int dnnl_engine_create(void **engine, int kind, size_t index);
int dnnl_engine_destroy(void *engine);
int dnnl_stream_create(void **stream, void *engine, unsigned flags);
int dnnl_stream_wait(void *stream);
int dnnl_stream_destroy(void *stream);
int dnnl_memory_desc_create_with_tag(void **desc, int ndims, const dims_t dims, int type, int tag);
int dnnl_memory_desc_destroy(void *desc);
int dnnl_memory_create(void **memory, const void *desc, void *engine, void *handle);
int dnnl_memory_destroy(void *memory);
int dnnl_matmul_primitive_desc_create(void **pd, void *engine, const void *src, const void *weights, const void *bias,
                                      const void *dst, const void *attr);
int dnnl_inner_product_forward_primitive_desc_create(void **pd, void *engine, int prop_kind, const void *src,
                                                     const void *weights, const void *bias, const void *dst,
                                                     const void *attr);
int dnnl_reorder_primitive_desc_create(void **pd, const void *src, void *src_engine, const void *dst, void *dst_engine,
                                       const void *attr);
const void *dnnl_primitive_desc_query_md(const void *pd, int what, int index);
int dnnl_primitive_desc_query(const void *pd, int what, int index, void *result);
int dnnl_primitive_desc_destroy(void *pd);
int dnnl_primitive_create(void **primitive, const void *pd);
int dnnl_primitive_execute(const void *primitive, void *stream, int nargs, const exec_arg_t *args);
int dnnl_primitive_destroy(void *primitive);

typedef struct {
    void *engine, *stream, *pd, *primitive;
    void *src, *weights, *dst; /* memories */
    const char *implementation;
    exec_arg_t args[3];
} plan_t;

int onednn_run(const plan_t *plan)
{
    const int status = dnnl_primitive_execute(plan->primitive, plan->stream, 3, plan->args);
    return status == SUCCESS ? dnnl_stream_wait(plan->stream) : status;
}

const char *onednn_implementation(const plan_t *plan)
{
    return plan->implementation;
}

void onednn_destroy(plan_t *plan)
{
    if (plan->src) dnnl_memory_destroy(plan->src);
    if (plan->weights) dnnl_memory_destroy(plan->weights);
    if (plan->dst) dnnl_memory_destroy(plan->dst);
    if (plan->primitive) dnnl_primitive_destroy(plan->primitive);
    if (plan->pd) dnnl_primitive_desc_destroy(plan->pd);
    if (plan->stream) dnnl_stream_destroy(plan->stream);
    if (plan->engine) dnnl_engine_destroy(plan->engine);
    free(plan);
}

/* Fill plan->weights with b (described by `plain`) in the layout that the primitive asks for. */
static int pack_weights(plan_t *plan, const void *plain, void *b)
{
    void *source = NULL, *pd = NULL, *reorder = NULL;
    const void *wanted = dnnl_primitive_desc_query_md(plan->pd, QUERY_WEIGHTS, 0);
    int status = dnnl_memory_create(&plan->weights, wanted, plan->engine, ALLOCATE);
    if (status == SUCCESS) status = dnnl_memory_create(&source, plain, plan->engine, b);
    if (status == SUCCESS)
        status = dnnl_reorder_primitive_desc_create(&pd, plain, plan->engine, wanted, plan->engine, NULL);
    if (status == SUCCESS) status = dnnl_primitive_create(&reorder, pd);
    if (status == SUCCESS) {
        const exec_arg_t args[2] = {{ARG_SRC, source}, {ARG_DST, plan->weights}};
        status = dnnl_primitive_execute(reorder, plan->stream, 2, args);
    }
    if (status == SUCCESS) status = dnnl_stream_wait(plan->stream);
    if (reorder) dnnl_primitive_destroy(reorder);
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (source) dnnl_memory_destroy(source);
    return status;
}

/* A plan for C (m x n, int32) = A (m x k, int8 or uint8) @ B (k x n, int8), all row-major. `packed` lets the primitive
 * choose the layout of B, and copies B into it now; otherwise B is used in place. NULL if oneDNN cannot do it. */
plan_t *onednn_create(int inner_product, int packed, int a_signed, int64_t m, int64_t n, int64_t k, void *a, void *b,
                      void *c)
{
    plan_t *plan = calloc(1, sizeof *plan);
    if (!plan) return NULL;
    /* The inner product's weights are (outputs, inputs): B transposed, which is column-major in place. */
    const dims_t src_dims = {m, k}, dst_dims = {m, n}, weights_dims = {inner_product ? n : k, inner_product ? k : n};
    void *src = NULL, *plain = NULL, *weights = NULL, *dst = NULL;
    const int plain_tag = inner_product ? BA : AB;
    int status = dnnl_engine_create(&plan->engine, CPU, 0);
    if (status == SUCCESS) status = dnnl_stream_create(&plan->stream, plan->engine, STREAM_DEFAULT);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&src, 2, src_dims, a_signed ? S8 : U8, AB);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&plain, 2, weights_dims, S8, plain_tag);
    if (status == SUCCESS)
        status = dnnl_memory_desc_create_with_tag(&weights, 2, weights_dims, S8, packed ? ANY : plain_tag);
    if (status == SUCCESS) status = dnnl_memory_desc_create_with_tag(&dst, 2, dst_dims, S32, AB);
    if (status == SUCCESS && inner_product)
        status = dnnl_inner_product_forward_primitive_desc_create(&plan->pd, plan->engine, FORWARD_INFERENCE, src,
                                                                  weights, NULL, dst, NULL);
    else if (status == SUCCESS)
        status = dnnl_matmul_primitive_desc_create(&plan->pd, plan->engine, src, weights, NULL, dst, NULL);
    if (status == SUCCESS) status = dnnl_primitive_create(&plan->primitive, plan->pd);
    if (status == SUCCESS) status = dnnl_memory_create(&plan->src, src, plan->engine, a);
    if (status == SUCCESS) status = dnnl_memory_create(&plan->dst, dst, plan->engine, c);
    if (status == SUCCESS)
        status = packed ? pack_weights(plan, plain, b) : dnnl_memory_create(&plan->weights, plain, plan->engine, b);
    if (status == SUCCESS)
        dnnl_primitive_desc_query(plan->pd, QUERY_IMPLEMENTATION, 0, (void *)&plan->implementation);
    if (src) dnnl_memory_desc_destroy(src);
    if (plain) dnnl_memory_desc_destroy(plain);
    if (weights) dnnl_memory_desc_destroy(weights);
    if (dst) dnnl_memory_desc_destroy(dst);
    if (status != SUCCESS) {
        onednn_destroy(plan);
        return NULL;
    }
    plan->args[0] = (exec_arg_t){ARG_SRC, plan->src};
    plan->args[1] = (exec_arg_t){ARG_WEIGHTS, plan->weights};
    plan->args[2] = (exec_arg_t){ARG_DST, plan->dst};
    return plan;
}
