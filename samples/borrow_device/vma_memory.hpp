// Device memory for vkattn from the application's allocator, which here is VMA.
#pragma once

#include "application.hpp"

#include <vkattn/vkattn.hpp>

// Must outlive the context that is given its callbacks.
class VmaMemory {
  public:
    explicit VmaMemory(const Application &app);
    ~VmaMemory();
    VmaMemory(const VmaMemory &) = delete;
    VmaMemory &operator=(const VmaMemory &) = delete;

    const vkattn_memory_callbacks &callbacks() const { return callbacks_; }
    void print_statistics() const;

  private:
    struct VmaAllocator_T *allocator_ = nullptr;
    vkattn_memory_callbacks callbacks_{};
};
