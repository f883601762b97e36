#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "device.hpp"
#include "skips.hpp"

#include <cstdio>

int main(int argc, char **argv) {
    doctest::Context context(argc, argv);
    const int failures = context.run();
    // The context must go while the Vulkan loader and its layers still stand.
    const std::vector<std::string> messages = vkattn_test::close_test_device();
    for (const std::string &message : messages) std::fprintf(stderr, "after the last test: %s\n", message.c_str());
    const bool is_reported = vkattn_test::report_skips();
    return failures != 0 || (messages.empty() && is_reported) ? failures : 1;
}
