// The device under test: one context per process, and runs that catch every byte a plan should not have touched.
#pragma once

#include "reference.hpp"

#include <vkattn/vkattn.hpp>

#include <map>
#include <mutex>
#include <optional>

namespace vkattn_test {

// Collects the messages of the validation layers, from any thread.
class ValidationMessages {
  public:
    static void callback(void *user, vkattn_severity, const char *message) {
        static_cast<ValidationMessages *>(user)->add(message);
    }
    void add(std::string message);
    // Hands over what has come in since the last call.
    std::vector<std::string> take();

  private:
    std::mutex mutex_;
    std::vector<std::string> messages_;
};

enum class Access { kRead, kWrite, kReadWrite };

// A tensor that takes part in a run: kRead is uploaded; kWrite is poisoned, run over and downloaded; kReadWrite is
// uploaded, run over and downloaded.
struct Region {
    vkattn_role role;
    HostTensor *tensor;
    Access access;
};

// What the environment asks of a context: VKATTN_TEST_DEVICE (a device selector) and VKATTN_DEVICE_TRAITS. traits: more
// of them, for a device as poor as that. Owns what info points to.
struct ContextRequest {
    explicit ContextRequest(const char *traits = "");
    ContextRequest(const ContextRequest &) = delete;
    ContextRequest &operator=(const ContextRequest &) = delete;

    // Gives the traits, which belong to this object, to a context that is asked for otherwise.
    void give_traits(vkattn_context_info &to) const {
        to.traits = info.traits;
        to.trait_count = info.trait_count;
    }

    vkattn_context_info info{};

  private:
    std::string selector_;
    std::vector<vkattn_trait> traits_;
};

// Traits of a device that runs few shaders, so that a whole self-test takes seconds where drivers compile slowly.
constexpr const char *kFewShaders = "specialised_modules=0,specialised_arrays=0,matrix_units=0";

class TestDevice {
  public:
    // Takes VKATTN_VALIDATION (1: validation layers) from the environment, too. traits: as ContextRequest has them.
    // get_instance_proc_addr: as vkattn_context_info has it.
    explicit TestDevice(ValidationMessages &messages, const char *traits = "",
                        PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr);

    const vkattn::Context &context() const { return context_; }
    const vkattn_device_facts &facts() const { return facts_; }

    // Binds every region between guard bytes, poisons outputs and the workspace, runs, downloads, and checks that
    // guards and gaps are as they were.
    void run(const vkattn::Plan &plan, std::span<const Region> regions);
    // The same; returns what is wrong, one line each, "" for nothing.
    std::string try_run(const vkattn::Plan &plan, std::span<const Region> regions);

  private:
    vkattn::Buffer &room(vkattn_role role, std::uint64_t bytes);
    vkattn_binding upload(vkattn_role role, std::span<const std::uint8_t> contents, std::uint8_t guard);
    std::string download(vkattn_role role, std::span<std::uint8_t> contents);

    vkattn::Context context_;
    vkattn_device_facts facts_;
    struct Room {
        vkattn::Buffer buffer;
        std::uint64_t bytes;
    };
    std::map<vkattn_role, Room> rooms_;
};

// As std::string, because doctest prints a const char * as an address.
std::string kernel_text(vkattn_kernel kernel);

// Whether the device can run a kernel, as far as is known.
bool can_run(const vkattn_device_facts &facts, vkattn_kernel kernel);

bool validation_wanted();
// The selector of the environment, "" for the default device.
std::string device_selector();

// Made on first use.
TestDevice &test_device();
// Destroys the device if it was made, and returns what the validation layers said of that.
std::vector<std::string> close_test_device();
// What the validation layers say, of this device and of any other context that is given them.
ValidationMessages &validation_messages();

// Fixture of every test case: a validation message during the case fails it.
class DeviceTest {
  public:
    DeviceTest() = default;
    ~DeviceTest();
    DeviceTest(const DeviceTest &) = delete;
    DeviceTest &operator=(const DeviceTest &) = delete;
};

// The results asked of a run: tensors of type VKATTN_TYPE_NONE are not asked for.
struct AttentionResults {
    HostTensor output;
    HostTensor log_sum_exp;
    HostTensor attn_weights;
    HostTensor qk_matmul_output;
};

// Contiguous f32 log_sum_exp and, for kernel unfused, weights and scores, with an output of the given type.
AttentionResults all_results(const AttentionProblem &problem, vkattn_kernel kernel, vkattn_type output_type);

// Gives a description the variant, if there is one, and what its functions read.
void set_variant(vkattn_attention_desc &desc, const vkattn::Variant *variant,
                 const std::array<HostTensor, VKATTN_CAPTURED_TENSORS> &captured);
vkattn_attention_desc describe(const AttentionProblem &problem, const AttentionResults &results, vkattn_kernel kernel);

// What the run of a problem reads and writes. They point into both.
std::vector<Region> regions_of(const AttentionProblem &problem, AttentionResults &results);

void run_attention(const AttentionProblem &problem, AttentionResults &results, const vkattn::Plan &plan);

// The kernels that a problem is given here, all of the device or one in its turn, of those that take what is described.
// Matrix kernels take 16-bit queries, and K and V of the same type or quantised.
std::vector<vkattn_kernel> kernels_for(const vkattn_attention_desc &desc);
std::vector<vkattn_kernel> kernels_for(const AttentionProblem &problem);
// While it lives, regions that are bound begin so many bytes further on: they are else at multiples of 16.
struct ShiftedRegions {
    explicit ShiftedRegions(std::uint64_t bytes);
    ~ShiftedRegions();
    ShiftedRegions(const ShiftedRegions &) = delete;
    ShiftedRegions &operator=(const ShiftedRegions &) = delete;
};

bool is_matrix_kernel(vkattn_kernel kernel);
// Whether the device has any, as it must where the build has them and the driver lists matrix shapes. Where not, the
// test case leaves them out.
bool has_matrix_kernels();

// Whether the kernel is made for such problems, and serves this one here.
bool serves(const vkattn_attention_desc &desc, vkattn_kernel kernel);

// The same numbers, rounded to f16 where they were wider, for the matrix kernels.
AttentionProblem in_f16(const AttentionProblem &problem);

// Plans, runs, and compares every result with the reference; returns what is wrong, one line each, "" for nothing.
std::string try_attention(const AttentionProblem &problem, const AttentionReference &reference,
                          AttentionResults &results, vkattn_kernel kernel);
void check_attention(const AttentionProblem &problem, const AttentionReference &reference, AttentionResults &results,
                     vkattn_kernel kernel);

// Whether the device refuses the kernel for lists of keys: llvmpipe's tiles of them, which crash.
bool refuses_lists(const AttentionProblem &problem, vkattn_kernel kernel);

// The same with every kernel and all the results each of them can give; with matrix kernels in f16 too, if the problem
// is in f32.
void check_every_kernel(const AttentionProblem &problem, vkattn_type output_type = VKATTN_TYPE_F32);

} // namespace vkattn_test
