// The cache of a layer, by the package: arithmetic alone, so that it runs where there is no Vulkan driver.
#include <vkattn/estimate.h>
#include <vkattn/vkattn.hpp>

#include <cstdio>

int main() {
    vkattn_layer_config config{};
    vkattn_estimate_result result{};
    if (vkattn_layer_config_from_name("gqa-8", 4096, 32, &config) != VKATTN_SUCCESS ||
        vkattn_estimate(&config, nullptr, &result) != VKATTN_SUCCESS) {
        std::fprintf(stderr, "%s\n", vkattn_last_error());
        return 1;
    }
    std::printf("vkattn %s: %llu bytes of cache a token, expected 4096\n", vkattn_version(),
                static_cast<unsigned long long>(result.cache_bytes_per_token));
    return result.cache_bytes_per_token == 4096 ? 0 : 1;
}
