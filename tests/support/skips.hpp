// What cannot be tested here, counted, so that a run that tests little does not look like one that tests all.
#pragma once

#include <string>

namespace vkattn_test {

// The test case leaves something out, for that reason. From any thread.
void skip(const std::string &reason);

// At the end of the program: prints, for each reason, how many test cases left something out, and appends that to the
// file named by VKATTN_TEST_SKIPS. False where the file cannot be written.
bool report_skips();

} // namespace vkattn_test
