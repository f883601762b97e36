#pragma once

#include "runtime/kernels/kernel.hpp"
#include "runtime/ops/explain.hpp"
#include "runtime/plan/shader_reports.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/trials/self_test.hpp"
#include "runtime/trials/tuning.hpp"

#include <memory>
#include <utility>
#include <vector>

// What a call has found, as the interface shows it.
struct vkattn_list_opaque {
    vkattn_list_opaque() = default;
    vkattn_list_opaque(const vkattn_list_opaque &) = delete;
    vkattn_list_opaque &operator=(const vkattn_list_opaque &) = delete;
    virtual ~vkattn_list_opaque() = default;
    virtual uint32_t count() const = 0;
    virtual const void *get(uint32_t index) const = 0; // below count
};

namespace vkattn {

// The facts of a device as an application is shown them, which stay as they are.
class ShownDevice {
  public:
    explicit ShownDevice(std::shared_ptr<const DeviceCaps> known)
        : caps_(std::move(known)), kernels_(list_kernels(*caps_)) {
        facts_ = *caps_;
        facts_.struct_size = sizeof facts_;
        facts_.half_workspaces = has_half_workspaces(*caps_);
        facts_.matrix_shapes = caps_->matrix_shapes;
        facts_.kernel_count = static_cast<uint32_t>(kernels_.size());
        facts_.kernels = kernels_.data();
    }
    const std::shared_ptr<const DeviceCaps> &caps() const { return caps_; }
    const vkattn_device_facts &facts() const { return facts_; }

  private:
    std::shared_ptr<const DeviceCaps> caps_; // whose are the texts
    std::vector<vkattn_kernel_support> kernels_;
    vkattn_device_facts facts_{};
};

inline vkattn_check public_form(const Check &check) {
    return {check.name.c_str(), check.reason.empty() ? 1U : 0U, check.reason.c_str(), check.milliseconds,
            check.check_count};
}

inline vkattn_candidate public_form(const Candidate &candidate) {
    return {candidate.kernel, candidate.tile.c_str(), candidate.milliseconds, candidate.kept ? 1U : 0U,
            candidate.reason.c_str()};
}

inline vkattn_option public_form(const Explanation &option) {
    return {option.kernel, option.chosen ? 1U : 0U, option.dispatches, option.shape.c_str(), option.obstacle.c_str()};
}

inline vkattn_type_info public_form(const StoredType &type) { return type.info; }

inline vkattn_plan_binding public_form(const vkattn_plan_binding &binding) { return binding; }

inline vkattn_device_facts public_form(const std::unique_ptr<ShownDevice> &device) { return device->facts(); }

// A list of what was found, which has the texts.
template <class Found>
class ListOf : public vkattn_list_opaque {
  public:
    explicit ListOf(std::vector<Found> found) : found_(std::move(found)) {
        for (const Found &each : found_) shown_.push_back(public_form(each));
    }
    uint32_t count() const override { return static_cast<uint32_t>(shown_.size()); }
    const void *get(uint32_t index) const override { return &shown_[index]; }

  private:
    std::vector<Found> found_;
    std::vector<decltype(public_form(std::declval<const Found &>()))> shown_;
};

// A list of what a plan has asked once.
class ListOfShaders : public vkattn_list_opaque {
  public:
    explicit ListOfShaders(std::shared_ptr<const ShaderReports> reports) : reports_(std::move(reports)) {}
    uint32_t count() const override { return static_cast<uint32_t>(reports_->shaders().size()); }
    const void *get(uint32_t index) const override { return &reports_->shaders()[index]; }

  private:
    std::shared_ptr<const ShaderReports> reports_;
};

} // namespace vkattn
