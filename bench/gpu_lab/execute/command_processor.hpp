// PM4: what RADV's command buffers ask the command processor for.
#pragma once
#include <cstdint>

namespace execute {

// Executes the packets of one indirect buffer, and of those that it calls. Ends the program if one is not known.
void run_commands(uint64_t address, uint32_t words);

} // namespace execute
