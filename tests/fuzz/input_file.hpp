// The input as a file in memory, for what reads files by their names.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

// Writes the bytes to a file of this process and of this name, and returns its path.
inline std::filesystem::path input_file(const std::string &name, const std::uint8_t *data, std::size_t size) {
    static const std::filesystem::path folder = [] {
        std::filesystem::path made = "/dev/shm/vkattn_fuzz_" + std::to_string(getpid());
        std::filesystem::create_directories(made);
        std::atexit([] { std::filesystem::remove_all("/dev/shm/vkattn_fuzz_" + std::to_string(getpid())); });
        return made;
    }();
    const std::filesystem::path path = folder / name;
    FILE *file = std::fopen(path.c_str(), "wb");
    if (file == nullptr || std::fwrite(data, 1, size, file) != size) std::abort();
    std::fclose(file);
    return path;
}
