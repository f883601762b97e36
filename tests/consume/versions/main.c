/* A program of another version: compiled against headers that are not the library's, older or newer, and run on the library. It
 * goes through what applications call, and checks the numbers. */
#ifdef VKATTN_KEPT_HEADER
#include VKATTN_KEPT_HEADER
#else
#include <vkattn/estimate.h>
#include <vkattn/vkattn.h>
#endif

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { kLen = 4, kDim = 8, kValues = kLen * kDim, kBytes = kValues * sizeof(float) };

static int wrong = 0;

static int right(vkattn_result result, const char *what) {
    if (result == VKATTN_SUCCESS) return 1;
    fprintf(stderr, "%s: %s: %s\n", what, vkattn_result_name(result), vkattn_last_error());
    wrong = 1;
    return 0;
}

static void check(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "wrong: %s\n", what);
    wrong = 1;
}

static vkattn_tensor contiguous(uint32_t rank, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    vkattn_tensor tensor = {VKATTN_TYPE_F32, rank, {0}, {0}, 0};
    const uint64_t shape[4] = {a, b, c, d};
    memcpy(tensor.shape, shape, rank * sizeof shape[0]);
    return tensor;
}

static vkattn_region part(vkattn_buffer buffer, uint64_t offset, uint64_t bytes) {
    vkattn_region region = vkattn_buffer_region(buffer);
    region.offset += offset;
    region.bytes = bytes;
    return region;
}

static vkattn_binding bind(vkattn_role role, vkattn_region region) {
    vkattn_binding binding = {.role = role, .region = region};
    return binding;
}

static void receive(void *user, vkattn_severity severity, const char *message) {
    (void)severity;
    fprintf(stderr, "%s: %s\n", (const char *)user, message);
}
/* A member that the library does not know must be 0, and is refused by the name of the structure where it is not. */
static void ask_of_the_future(vkattn_context context, vkattn_attention_desc desc) {
#ifdef VKATTN_OF_THE_FUTURE
    vkattn_plan plan = NULL;
    desc.of_the_future = 1;
    check(vkattn_attention_plan(context, &desc, &plan) == VKATTN_ERROR_INVALID_ARGUMENT,
          "what is not known is refused");
    check(strstr(vkattn_last_error(), "desc.struct_size") != NULL, "by the structure's name");
#else
    (void)context;
    (void)desc;
#endif
}

/* All queries are zero, so that query i weighs keys 0 to i alike: rows of key j hold j, and output i is i / 2. */
static void attend(vkattn_context context, vkattn_buffer buffer) {
    float host[kValues] = {0};
    float output[kValues];
    vkattn_attention_desc desc = {VKATTN_SIZED(vkattn_attention_desc)};
    vkattn_plan plan = NULL;
    vkattn_report report = {VKATTN_SIZED(vkattn_report)};
    vkattn_requirements needs = {VKATTN_SIZED(vkattn_requirements)};
    vkattn_list list = NULL;
    vkattn_binding bindings[4];
    const vkattn_option *best = NULL;
    uint32_t i;

    desc.query = desc.key = desc.value = desc.output = contiguous(4, 1, 1, kLen, kDim);
    desc.mask_flags = VKATTN_MASK_CAUSAL;
    check(vkattn_tensor_bytes(&desc.query) == kBytes, "vkattn_tensor_bytes");
    if (!right(vkattn_explain(context, &desc, &list), "explain")) return;
    for (i = 0; i < vkattn_list_count(list); ++i) {
        const vkattn_option *each = (const vkattn_option *)vkattn_list_get(list, i);
        if (each->chosen == 1) best = each;
    }
    check(best != NULL && strlen(best->obstacle) == 0, "an option is chosen");
    if (!right(vkattn_attention_plan(context, &desc, &plan), "attention_plan")) return;
    right(vkattn_plan_get_report(plan, &report), "report");
    right(vkattn_plan_requirements(plan, &needs), "requirements");
    check(best != NULL && report.kernel == best->kernel && report.dispatches >= 1 && strlen(report.reason) > 0,
          "the report");
    check(needs.workspace_alignment >= 4, "the requirements");
    vkattn_list_destroy(list);
    right(vkattn_plan_bindings(plan, &list), "plan_bindings");
    check(vkattn_list_count(list) == 4, "a plan binds four");
    for (i = 0; i < vkattn_list_count(list); ++i) {
        const vkattn_plan_binding *each = (const vkattn_plan_binding *)vkattn_list_get(list, i);
        check(each->bytes == kBytes && strcmp(each->name, vkattn_role_name(each->role)) == 0, "what a plan binds");
    }
    vkattn_list_destroy(list);
    right(vkattn_buffer_write(buffer, 0, host, kBytes), "write");
    for (i = 0; i < kValues; ++i) host[i] = (float)(i / kDim);
    right(vkattn_buffer_upload(buffer, kBytes, host, kBytes, NULL), "upload");
    bindings[0] = bind(VKATTN_ROLE_QUERY, part(buffer, 0, kBytes));
    bindings[1] = bind(VKATTN_ROLE_KEY, part(buffer, kBytes, kBytes));
    bindings[2] = bind(VKATTN_ROLE_VALUE, part(buffer, kBytes, kBytes));
    bindings[3] = bind(VKATTN_ROLE_OUTPUT, part(buffer, 2 * kBytes, kBytes));
    right(vkattn_submit(plan, bindings, 4, NULL), "submit");
    right(vkattn_buffer_download(buffer, 2 * kBytes, output, kBytes, NULL), "download");
    right(vkattn_wait(context, UINT64_MAX), "wait");
    for (i = 0; i < kValues; ++i) check(fabsf(output[i] - (float)(i / kDim) / 2.0f) < 1e-6f, "attention");
    bindings[3].region.bytes = kBytes - 4;
    check(vkattn_run(plan, bindings, 4, NULL) == VKATTN_ERROR_INVALID_ARGUMENT, "a region too small is refused");
    check(vkattn_last_failure()->result == VKATTN_ERROR_INVALID_ARGUMENT, "the last failure");
    check(strstr(vkattn_last_failure()->message, "output") != NULL, "by its name");
    vkattn_plan_destroy(plan);
    ask_of_the_future(context, desc);
    desc.struct_size = 0;
    check(vkattn_attention_plan(context, &desc, &plan) == VKATTN_ERROR_INVALID_ARGUMENT, "a size of 0 is refused");
}

/* A layer of identities, a cache, and two tokens one after the other. */
static void decode(vkattn_context context, vkattn_buffer buffer) {
    static const char *const names[4] = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"};
    float identity[kDim * kDim] = {0};
    float token[kDim] = {0};
    float output[kDim];
    vkattn_layer_config config = {VKATTN_SIZED(vkattn_layer_config)};
    vkattn_weight weights[4];
    vkattn_layer layer = NULL;
    vkattn_cache_info info = {VKATTN_SIZED(vkattn_cache_info)};
    vkattn_cache cache = NULL;
    vkattn_layer_call call = {VKATTN_SIZED(vkattn_layer_call)};
    vkattn_measure measure = {VKATTN_SIZED(vkattn_measure)};
    vkattn_plan plan = NULL;
    vkattn_binding bindings[2];
    uint32_t length = 0;
    int i;

    for (i = 0; i < kDim; ++i) identity[i * kDim + i] = 1.0f;
    memset(weights, 0, sizeof weights);
    for (i = 0; i < 4; ++i) {
        weights[i].name = names[i];
        weights[i].tensor = contiguous(2, kDim, kDim, 0, 0);
        weights[i].data = identity;
        weights[i].bytes = sizeof identity;
    }
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = kDim;
    config.num_heads = 1;
    if (!right(vkattn_layer_create(context, &config, weights, 4, &layer), "layer_create")) return;
    info.layer = layer;
    info.batch = 1;
    info.capacity = 4;
    info.key_type = info.value_type = VKATTN_TYPE_F32;
    right(vkattn_cache_create(context, &info, &cache), "cache_create");
    call.query = call.output = contiguous(3, 1, 1, kDim, 0);
    call.mask_flags = VKATTN_MASK_CAUSAL;
    call.cache = cache;
    right(vkattn_layer_plan(layer, &call, &plan), "layer_plan");
    right(vkattn_layer_measure(context, &config, &call, &measure), "layer_measure");
    check(measure.dispatches >= 1, "the measure");
    bindings[0] = bind(VKATTN_ROLE_QUERY, part(buffer, 0, sizeof token));
    bindings[1] = bind(VKATTN_ROLE_OUTPUT, part(buffer, kBytes, sizeof token));
    for (i = 0; i < 2; ++i) {
        right(vkattn_buffer_write(buffer, 0, token, sizeof token), "write");
        right(vkattn_run(plan, bindings, 2, NULL), "a step");
        token[1] = 2.0f;
    }
    right(vkattn_buffer_read(buffer, kBytes, output, sizeof output), "read");
    /* the second token's score with itself is 4 / sqrt(8), with the first 0 */
    check(fabs((double)output[1] - 2.0 / (1.0 + exp(-4.0 / sqrt(8.0)))) < 1e-5, "the second step");
    right(vkattn_cache_lengths(cache, &length, 1), "cache_lengths");
    check(length == 2, "two tokens are held");
    right(vkattn_cache_rewind(cache, 0, 1), "rewind");
    check(vkattn_run(plan, bindings, 2, NULL) == VKATTN_SUCCESS, "a step after a rewind");
    vkattn_layer_destroy(layer); /* in any order */
    vkattn_cache_destroy(cache);
    vkattn_plan_destroy(plan);
}

static void estimate(void) {
    vkattn_layer_config config = {VKATTN_SIZED(vkattn_layer_config)};
    vkattn_estimate_info info = {VKATTN_SIZED(vkattn_estimate_info)};
    vkattn_estimate_result result = {VKATTN_SIZED(vkattn_estimate_result)};
    right(vkattn_layer_config_from_name("gqa-8", 4096, 32, &config), "layer_config_from_name");
    info.context_len = 32768;
    right(vkattn_estimate(&config, &info, &result), "estimate");
    check(result.cache_bytes == UINT64_C(32768) * 2 * 8 * 128 * 2, "cache_bytes of the estimate");
}

int main(int count, char **arguments) {
    vkattn_context context = NULL;
    vkattn_context_info info = {VKATTN_SIZED(vkattn_context_info)};
    vkattn_buffer buffer = NULL;
    vkattn_device_facts facts = {VKATTN_SIZED(vkattn_device_facts)};
    vkattn_list list = NULL;

    right(vkattn_enumerate_devices(NULL, &list), "enumerate_devices");
    check(vkattn_list_count(list) >= 1, "devices are listed");
    check(strlen(((const vkattn_device_facts *)vkattn_list_get(list, 0))->name) > 0, "the first device has a name");
    vkattn_list_destroy(list);
    info.message_callback = receive;
    info.message_user = arguments[0];
    if (!right(vkattn_context_create(&info, &context), "context_create")) return 1;
    right(vkattn_context_facts(context, &facts), "context_facts");
    right(vkattn_buffer_create(context, 3 * kBytes, &buffer), "buffer_create");
    attend(context, buffer);
    decode(context, buffer);
    estimate();
    vkattn_buffer_destroy(buffer);
    vkattn_context_destroy(context);
    if (!wrong)
        printf("a program of headers %s on vkattn %s and %s: right\n", arguments[count - 1], vkattn_version(),
               facts.name);
    return wrong;
}
