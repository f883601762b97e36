/* A program of version 0.1: compiled against the headers of that version, which lie beside it, and run on today's library. It
 * goes through what an application of that time could call, and checks the numbers. */
#include <vkattn/estimate.h>
#include <vkattn/shaders.h>
#include <vkattn/vkattn.h>

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

static vkattn_tensor contiguous(vkattn_type type, uint32_t rank, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    vkattn_tensor tensor = {0};
    const uint64_t shape[4] = {a, b, c, d};
    tensor.type = type;
    tensor.rank = rank;
    memcpy(tensor.shape, shape, rank * sizeof shape[0]);
    return tensor;
}

static vkattn_binding bind(vkattn_role role, vkattn_buffer buffer, uint64_t offset, uint64_t bytes) {
    vkattn_binding binding = {0};
    binding.role = role;
    binding.buffer = vkattn_buffer_handle(buffer);
    binding.offset = offset;
    binding.bytes = bytes;
    return binding;
}

/* Messages, memory and checks that this program is told of. */
static uint32_t told = 0;
static void receive(void *user, vkattn_severity severity, const char *message) {
    (void)severity;
    fprintf(stderr, "%s: %s\n", (const char *)user, message);
}
static void receive_check(void *user, const vkattn_check *each) {
    (void)user;
    check(each->passed == 1 && strlen(each->reason) == 0 && strlen(each->name) > 0, "a check of the self-test");
    ++told;
}

/* All queries are zero, so that query i weighs keys 0 to i alike: rows of key j hold j, and output i is i / 2. */
static void attend(vkattn_context context, vkattn_buffer buffer) {
    float host[kValues] = {0};
    float output[kValues];
    vkattn_attention_desc desc = {0};
    vkattn_plan plan = NULL;
    vkattn_report report;
    vkattn_requirements needs;
    vkattn_option options[VKATTN_MAX_KERNELS];
    uint32_t count = VKATTN_MAX_KERNELS, chosen;
    vkattn_binding bindings[4];
    int i;

    desc.query = desc.key = desc.value = desc.output = contiguous(VKATTN_TYPE_F32, 4, 1, 1, kLen, kDim);
    desc.mask_flags = VKATTN_MASK_CAUSAL;
    check(vkattn_tensor_bytes(&desc.query) == kBytes, "vkattn_tensor_bytes");
    right(vkattn_explain(context, &desc, &count, options, sizeof options[0]), "explain");
    for (chosen = 0; chosen < count && options[chosen].chosen == 0;) ++chosen;
    check(chosen < count && strlen(options[chosen].obstacle) == 0, "an option is chosen");
    right(vkattn_prewarm(context, &desc, 1, 1), "prewarm");
    if (!right(vkattn_attention_plan(context, &desc, &plan), "attention_plan")) return;
    vkattn_plan_report(plan, &report, sizeof report);
    vkattn_plan_requirements(plan, &needs, sizeof needs);
    check(report.kernel == options[chosen % VKATTN_MAX_KERNELS].kernel && report.dispatches >= 1 &&
              strlen(report.reason) > 0,
          "report");
    check(needs.workspace_alignment >= 16, "requirements");
    right(vkattn_buffer_write(buffer, 0, host, kBytes), "write");
    for (i = 0; i < kValues; ++i) host[i] = (float)(i / kDim);
    right(vkattn_buffer_upload(buffer, kBytes, host, kBytes, NULL), "upload");
    bindings[0] = bind(VKATTN_ROLE_QUERY, buffer, 0, kBytes);
    bindings[1] = bind(VKATTN_ROLE_KEY, buffer, kBytes, kBytes);
    bindings[2] = bind(VKATTN_ROLE_VALUE, buffer, kBytes, kBytes);
    bindings[3] = bind(VKATTN_ROLE_OUTPUT, buffer, 2 * kBytes, kBytes);
    right(vkattn_submit(plan, bindings, 4, NULL), "submit");
    right(vkattn_buffer_download(buffer, 2 * kBytes, output, kBytes, NULL), "download");
    right(vkattn_wait(context), "wait");
    for (i = 0; i < kValues; ++i) check(fabsf(output[i] - (float)(i / kDim) / 2.0f) < 1e-6f, "attention, submitted");
    right(vkattn_run(plan, bindings, 4, NULL), "run");
    bindings[3].bytes = kBytes - 4;
    check(vkattn_run(plan, bindings, 4, NULL) == VKATTN_ERROR_INVALID_ARGUMENT, "a region too small is refused");
    check(strstr(vkattn_last_error(), "output") != NULL, "by its name");
    vkattn_plan_destroy(plan);
    desc.next = &desc;
    check(vkattn_attention_plan(context, &desc, &plan) == VKATTN_ERROR_INVALID_ARGUMENT, "unknown extensions");
    check(strstr(vkattn_last_error(), "next") != NULL, "are named");
}

/* A layer of identities, a cache, and two tokens one after the other. */
static void decode(vkattn_context context, vkattn_buffer buffer) {
    static const char *const names[4] = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"};
    float identity[kDim * kDim] = {0};
    float token[kDim], output[kDim];
    vkattn_layer_config config = {0};
    vkattn_weight weights[4];
    vkattn_layer layer = NULL;
    vkattn_cache_info info = {0};
    vkattn_cache cache = NULL;
    vkattn_layer_call call = {0};
    vkattn_plan plan = NULL;
    vkattn_binding bindings[2];
    uint32_t length = 0, count = 1;
    uint64_t workspace = 0;
    int i;

    for (i = 0; i < kDim; ++i) identity[i * kDim + i] = 1.0f;
    memset(weights, 0, sizeof weights);
    for (i = 0; i < 4; ++i) {
        weights[i].name = names[i];
        weights[i].tensor = contiguous(VKATTN_TYPE_F32, 2, kDim, kDim, 0, 0);
        weights[i].data = identity;
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
    call.query = call.output = contiguous(VKATTN_TYPE_F32, 3, 1, 1, kDim, 0);
    call.mask_flags = VKATTN_MASK_CAUSAL;
    call.cache = cache;
    right(vkattn_layer_plan(layer, &call, &plan), "layer_plan");
    right(vkattn_layer_workspace(context, &config, &call, &workspace), "layer_workspace");
    bindings[0] = bind(VKATTN_ROLE_QUERY, buffer, 0, 0);
    bindings[1] = bind(VKATTN_ROLE_OUTPUT, buffer, kBytes, 0);
    memset(token, 0, sizeof token);
    for (i = 0; i < 2; ++i) {
        right(vkattn_buffer_write(buffer, 0, token, sizeof token), "write");
        right(vkattn_run(plan, bindings, 2, NULL), "a step");
        token[1] = 2.0f;
    }
    right(vkattn_buffer_read(buffer, kBytes, output, sizeof output), "read");
    /* the second token's score with itself is 4 / sqrt(8), with the first 0 */
    check(fabs((double)output[1] - 2.0 / (1.0 + exp(-4.0 / sqrt(8.0)))) < 1e-5, "the second step");
    right(vkattn_cache_lengths(cache, &count, &length), "cache_lengths");
    check(count == 1 && length == 2, "two tokens are held");
    right(vkattn_cache_rewind(cache, 0, 1), "rewind");
    check(vkattn_cache_bytes(cache) >= 2 * 4 * kDim * sizeof(float), "cache_bytes");
    vkattn_plan_destroy(plan);
    vkattn_cache_destroy(cache);
    vkattn_layer_destroy(layer);
}

/* A cache of pages without a layer: two sequences get one token each, and share no page. */
static void append(vkattn_context context, vkattn_buffer buffer) {
    const uint32_t tokens = 1;
    vkattn_cache_info info = {0};
    vkattn_cache cache = NULL;
    vkattn_cache_append_desc desc = {0};
    vkattn_plan plan = NULL;
    vkattn_binding bindings[2];
    vkattn_tensor pages;
    VkBuffer pool = VK_NULL_HANDLE;
    uint32_t lengths[2] = {0}, count = 2;

    info.kv_heads = 1;
    info.head_dim = info.v_head_dim = kDim;
    info.batch = 2;
    info.capacity = 16;
    info.key_type = info.value_type = VKATTN_TYPE_F16;
    info.page_len = 8;
    info.page_count = 3;
    if (!right(vkattn_cache_create(context, &info, &cache), "cache_create of pages")) return;
    desc.cache = cache;
    desc.key = desc.value = contiguous(VKATTN_TYPE_F32, 4, 2, 1, 1, kDim);
    if (right(vkattn_cache_append_plan(context, &desc, &plan), "cache_append_plan")) {
        bindings[0] = bind(VKATTN_ROLE_KEY, buffer, 0, 2 * kDim * sizeof(float));
        bindings[1] = bind(VKATTN_ROLE_VALUE, buffer, 0, 2 * kDim * sizeof(float));
        right(vkattn_run(plan, bindings, 2, NULL), "append");
    }
    right(vkattn_cache_lengths(cache, &count, lengths), "cache_lengths");
    check(count == 2 && lengths[0] == 1 && lengths[1] == 1, "each sequence holds its token");
    check(vkattn_cache_free_pages(cache) == 1, "one page is left");
    right(vkattn_cache_reserve(cache, 1, &tokens), "cache_reserve");
    right(vkattn_cache_rewind(cache, 0, 0), "rewind");
    right(vkattn_cache_share_prefix(cache, 1, 0, 1), "share_prefix");
    check(vkattn_cache_free_pages(cache) == 2, "a shared page is one");
    right(vkattn_cache_tensor(cache, VKATTN_CACHE_KEYS, &pages, &pool), "cache_tensor");
    check(pages.shape[0] == 3 && pages.shape[2] == 8 && pool != VK_NULL_HANDLE, "the pool of pages");
    vkattn_plan_destroy(plan);
    vkattn_cache_destroy(cache);
}

static void arithmetic(void) {
    vkattn_layer_config config;
    vkattn_estimate_info info = {0};
    vkattn_estimate_result result;
    memset(&config, 0, sizeof config);
    right(vkattn_layer_config_from_name("gqa-8", 4096, 32, &config), "layer_config_from_name");
    info.context_len = 32768;
    right(vkattn_estimate(&config, &info, &result, sizeof result), "estimate");
    check(result.cache_bytes == UINT64_C(32768) * 2 * 8 * 128 * 2, "cache_bytes of the estimate");
}

/* Size 0 is that of version 0.1, of every structure that the library fills in: not a byte more is written. */
static void size_0(vkattn_context context, const vkattn_device_facts *known) {
    static struct {
        vkattn_device_facts facts[2];
        unsigned char guard[64];
    } room;
    vkattn_layer_config config;
    vkattn_estimate_info info = {0};
    struct {
        vkattn_estimate_result result;
        unsigned char guard[16];
    } estimate;
    uint32_t count = 2;
    size_t i;

    memset(&room, 0xab, sizeof room);
    memset(&estimate, 0xab, sizeof estimate);
    right(vkattn_context_facts(context, &room.facts[1], 0), "context_facts of size 0");
    for (i = 0; i < sizeof room.guard; ++i) check(room.guard[i] == 0xab, "context_facts of size 0 keeps to 0.1's size");
    check(strcmp(room.facts[1].name, known->name) == 0 && room.facts[1].kernel_count == known->kernel_count,
          "the facts of size 0");
    memset(&room, 0xab, sizeof room);
    right(vkattn_enumerate_devices(NULL, &count, room.facts, 0), "enumerate_devices of stride 0");
    for (i = 0; i < sizeof room.guard; ++i)
        check(room.guard[i] == 0xab, "enumerate_devices of stride 0 keeps to 0.1's size");
    check(count < 2 || strlen(room.facts[1].name) > 0, "the second device is where 0.1 looks for it");
    check(room.facts[count < 2 ? 0 : 1].kernel_count >= 1, "the facts of the last device");
    memset(&config, 0, sizeof config);
    right(vkattn_layer_config_from_name("gqa-8", 4096, 32, &config), "layer_config_from_name");
    right(vkattn_estimate(&config, &info, &estimate.result, 0), "estimate of size 0");
    for (i = 0; i < sizeof estimate.guard; ++i)
        check(estimate.guard[i] == 0xab, "estimate of size 0 keeps to 0.1's size");
}

int main(void) {
    static char name[] = "version 0.1";
    vkattn_context context = NULL;
    vkattn_context_info info = {0};
    vkattn_buffer buffer = NULL;
    vkattn_device_facts facts[8];
    uint32_t count = 8;

    right(vkattn_enumerate_devices(NULL, &count, facts, sizeof facts[0]), "enumerate_devices");
    check(count >= 1 && facts[0].kernel_count >= 1 && facts[0].kernels[0].reason != NULL, "devices are listed");
    info.message_callback = receive;
    info.message_user = name;
    if (!right(vkattn_context_create(&info, &context), "context_create")) return 1;
    right(vkattn_context_facts(context, &facts[0], sizeof facts[0]), "context_facts");
    size_0(context, &facts[0]);
    right(vkattn_self_test_each(context, receive_check, NULL), "self_test_each");
    check(told > 0, "the self-test tells of checks");
    right(vkattn_buffer_create(context, 3 * kBytes, &buffer), "buffer_create");
    attend(context, buffer);
    decode(context, buffer);
    append(context, buffer);
    arithmetic();
    vkattn_buffer_destroy(buffer);
    vkattn_context_destroy(context);
    if (!wrong) printf("a program of version 0.1 on vkattn %s and %s: right\n", vkattn_version(), facts[0].name);
    return wrong;
}
