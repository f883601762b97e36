#include "printed_code.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include <unistd.h>

namespace vkattn::gpu_lab {

namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE *)>;

bool driver_prints_code() {
    const char *wanted = std::getenv("AGX_MESA_DEBUG");
    return wanted != nullptr && std::strstr(wanted, "shaders") != nullptr;
}

std::string contents(std::FILE *file) {
    std::string all;
    char part[1 << 16];
    std::rewind(file);
    for (std::size_t count; (count = std::fread(part, 1, sizeof(part), file)) > 0;) all.append(part, count);
    return all;
}

} // namespace

VkResult with_printed_code(const std::function<VkResult()> &create, std::string &printed) {
    static std::mutex mutex; // there is one standard output
    if (!driver_prints_code()) return create();
    const std::lock_guard lock(mutex);
    const File file(std::tmpfile(), std::fclose);
    const int output = dup(STDOUT_FILENO);
    std::fflush(stdout);
    if (file == nullptr || output < 0 || dup2(fileno(file.get()), STDOUT_FILENO) < 0) {
        if (output >= 0) close(output);
        return create();
    }
    const VkResult result = create();
    std::fflush(stdout);
    dup2(output, STDOUT_FILENO);
    close(output);
    printed = contents(file.get());
    return result;
}

} // namespace vkattn::gpu_lab
