// Vulkan as vkattn is handed it, with memory that ends where a page begins that nobody may touch, has such a page in front,
// and becomes such pages for a while once it is freed: a kernel of a CPU driver that reads or writes beyond its memory
// through an address crashes there, with its test case named. (What is read through a descriptor these drivers check
// themselves.) Linux, where device memory is the program's own pages.
#pragma once

#include <volk.h>

#include <cstdint>

namespace vkattn_test {

// Whether the environment asks for it: VKATTN_GUARD_PAGES=1.
bool guards_pages();

// A piece of memory, as the host sees it.
struct GuardedMemory {
    const std::uint8_t *begin = nullptr; // NULL: there is none
    std::uint64_t bytes = 0;
};

// The one that was allocated last.
GuardedMemory last_guarded_memory();

// As long as there is one, descriptors of storage buffers reach over the page after the memory, so that what is read past
// its end crashes through them, too. For kernels each of whose invocations reads at a place of its own: a load of one
// address for all, these drivers execute even where no invocation comes along.
class OpenRanges {
  public:
    OpenRanges();
    ~OpenRanges();
    OpenRanges(const OpenRanges &) = delete;
    OpenRanges &operator=(const OpenRanges &) = delete;
};

// For vkattn_context_info. Of one device at a time, or of devices of one driver. NULL where there are no such pages.
PFN_vkGetInstanceProcAddr guarded_vulkan();

} // namespace vkattn_test
