// The C entry points of devices, contexts and buffers, and of what belongs to none.
#define STRINGIFY_VALUE(x) #x
#define STRINGIFY(x) STRINGIFY_VALUE(x)

#include "runtime/api/handles.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/trials/saved_state.hpp"
#include "runtime/trials/self_test.hpp"
#include "runtime/vulkan/device_query.hpp"
#include "runtime/vulkan/submissions.hpp"

#include <algorithm>

using namespace vkattn;

uint32_t vkattn_list_count(vkattn_list list) { return list != nullptr ? list->count() : 0; }

const void *vkattn_list_get(vkattn_list list, uint32_t index) {
    return index < vkattn_list_count(list) ? list->get(index) : nullptr;
}

void vkattn_list_destroy(vkattn_list list) { delete list; }

const char *vkattn_role_name(vkattn_role role) { return role_name(role); }

const char *vkattn_version(void) {
    return STRINGIFY(VKATTN_VERSION_MAJOR) "." STRINGIFY(VKATTN_VERSION_MINOR) "." STRINGIFY(VKATTN_VERSION_PATCH);
}

vkattn_result vkattn_enumerate_types(vkattn_list *types) {
    return list(types, "types", [] { return std::vector<StoredType>(stored_types().begin(), stored_types().end()); });
}

uint64_t vkattn_tensor_bytes(const vkattn_tensor *tensor) {
    uint64_t bytes = 0;
    guard([&] {
        if (tensor != nullptr) bytes = extent_bytes(normalised(*tensor, "tensor"));
    });
    return bytes;
}

vkattn_result vkattn_enumerate_devices(PFN_vkGetInstanceProcAddr get_instance_proc_addr, vkattn_list *devices) {
    return list(devices, "devices", [&] {
        std::vector<std::unique_ptr<ShownDevice>> all;
        for (DeviceCaps &device : enumerate_devices(get_instance_proc_addr))
            all.push_back(std::make_unique<ShownDevice>(std::make_shared<const DeviceCaps>(std::move(device))));
        return all;
    });
}

const char *const *vkattn_wanted_extensions(uint32_t *count) {
    const auto wanted = wanted_device_extensions();
    if (count != nullptr) *count = static_cast<uint32_t>(wanted.size());
    return wanted.data();
}

vkattn_result vkattn_context_create(const vkattn_context_info *info, vkattn_context *context) {
    return create(context, "context",
                  [&] { return std::make_unique<vkattn_context_opaque>(sized_or_default(info, "info")); });
}

void vkattn_context_destroy(vkattn_context context) { destroy(context); }

void vkattn_withdraw_trials(void) { CrashJournal::withdraw_all(); }

vkattn_result vkattn_context_facts(vkattn_context context, vkattn_device_facts *facts) {
    return guard([&] {
        require_given(context, "context");
        ContextState &state = *context->state;
        const std::lock_guard lock(state.mutex);
        std::shared_ptr<const DeviceCaps> caps = state.context.judged_caps();
        if (state.shown.empty() || state.shown.back()->caps() != caps)
            state.shown.push_back(std::make_unique<ShownDevice>(std::move(caps)));
        fill_in(facts, state.shown.back()->facts(), "facts");
    });
}

vkattn_result vkattn_context_tune_budget(vkattn_context context, vkattn_tune_budget_report *report) {
    return guard([&] {
        require_given(context, "context");
        const TuningBudget::Report own = context->context.tunings().budget.report();
        fill_in(report,
                {.budget_ms = own.allowed,
                 .spent_ms = own.spent,
                 .classes = own.measured,
                 .candidates = own.candidates,
                 .left_out = own.left_out},
                "report");
    });
}

vkattn_result vkattn_context_save(vkattn_context context, void *data, uint64_t *bytes) {
    return guard([&] {
        require_given(context, "context");
        require_given(bytes, "bytes");
        const std::vector<std::byte> saved = save_state(context->context);
        if (data != nullptr) {
            require_room(*bytes >= saved.size(), "bytes: ", *bytes, ", expected at least ", saved.size());
            std::ranges::copy(saved, static_cast<std::byte *>(data));
        }
        *bytes = saved.size();
    });
}

vkattn_result vkattn_self_test(vkattn_context context, vkattn_check_callback callback, void *user,
                               vkattn_list *checks) {
    if (checks != nullptr) *checks = nullptr;
    return guard([&] {
        require_given(context, "context");
        std::vector<Check> all;
        self_test(context->context, [&](const Check &check) {
            if (callback != nullptr) {
                const vkattn_check each = public_form(check);
                callback(user, &each);
            }
            if (checks != nullptr) all.push_back(check);
        });
        context->state->plans.clear(); // plans from now on take what passed
        if (checks != nullptr) *checks = new ListOf<Check>(std::move(all));
    });
}

vkattn_result vkattn_context_handles(vkattn_context context, VkInstance *instance, VkPhysicalDevice *physical_device,
                                     VkDevice *device, VkQueue *queue, uint32_t *queue_family) {
    return guard([&] {
        require_given(context, "context");
        const Context &own = context->context;
        if (instance != nullptr) *instance = own.instance();
        if (physical_device != nullptr) *physical_device = own.physical_device();
        if (device != nullptr) *device = own.device();
        if (queue != nullptr) *queue = own.queue();
        if (queue_family != nullptr) *queue_family = own.queue_family();
    });
}

vkattn_result vkattn_buffer_create(vkattn_context context, uint64_t bytes, vkattn_buffer *buffer) {
    return create(buffer, "buffer", [&] {
        require_given(context, "context");
        return std::make_unique<vkattn_buffer_opaque>(context->state, bytes);
    });
}

void vkattn_buffer_destroy(vkattn_buffer buffer) { destroy(buffer); }

VkBuffer vkattn_buffer_handle(vkattn_buffer buffer) {
    return buffer == nullptr ? VK_NULL_HANDLE : buffer->buffer.handle();
}

vkattn_region vkattn_buffer_region(vkattn_buffer buffer) {
    if (buffer == nullptr) return {};
    return {buffer->buffer.handle(), 0, buffer->buffer.bytes()};
}

namespace {

void require_range(vkattn_buffer buffer, uint64_t offset, const void *data, uint64_t bytes) {
    require_given(buffer, "buffer");
    require(data != nullptr || bytes == 0, "data: NULL, expected ", bytes, " bytes");
    const uint64_t size = buffer->buffer.bytes();
    require(offset <= size && bytes <= size - offset, "offset, bytes: ", offset, " and ", bytes,
            ", expected a range within the buffer's ", size, " bytes");
}

} // namespace

vkattn_result vkattn_buffer_write(vkattn_buffer buffer, uint64_t offset, const void *data, uint64_t bytes) {
    return guard([&] {
        require_range(buffer, offset, data, bytes);
        const InUse use(buffer->usage);
        buffer->buffer.context().submissions().wait();
        buffer->buffer.write(offset, data, bytes);
    });
}

vkattn_result vkattn_buffer_read(vkattn_buffer buffer, uint64_t offset, void *data, uint64_t bytes) {
    return guard([&] {
        require_range(buffer, offset, data, bytes);
        const InUse use(buffer->usage);
        buffer->buffer.context().submissions().wait();
        buffer->buffer.read(offset, data, bytes);
    });
}

vkattn_result vkattn_buffer_upload(vkattn_buffer buffer, uint64_t offset, const void *data, uint64_t bytes,
                                   const vkattn_sync *sync) {
    return guard([&] {
        require_range(buffer, offset, data, bytes);
        const InUse use(buffer->usage);
        buffer->buffer.upload(offset, data, bytes, sync);
    });
}

vkattn_result vkattn_buffer_download(vkattn_buffer buffer, uint64_t offset, void *data, uint64_t bytes,
                                     const vkattn_sync *sync) {
    return guard([&] {
        require_range(buffer, offset, data, bytes);
        const InUse use(buffer->usage);
        buffer->buffer.download(offset, data, bytes, sync);
    });
}

vkattn_result vkattn_wait(vkattn_context context, uint64_t timeout_ns) {
    return guard([&] {
        require_given(context, "context");
        if (!context->context.submissions().wait(timeout_ns))
            fail(VKATTN_ERROR_TIMEOUT, "timeout_ns: ", timeout_ns, " are over, and the device is not done");
    });
}
