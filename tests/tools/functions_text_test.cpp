// Texts of functions as anybody may have written them: what runtime/jit says of them before a compiler is asked, and of what a
// compiler said.
#include "runtime/jit/functions_text.hpp"

#include <vkattn/variants.h>

#include <doctest/doctest.h>

#include <string>

using namespace vkattn::jit;

namespace {

const std::string kScore = "float score_mod(float score, uint batch, uint head, uint query, uint key)";

std::string named(const std::string &text) { return "#line 1 \"f\"\n" + text; }

} // namespace

TEST_SUITE_BEGIN("functions_text");

TEST_CASE("the functions of a text are found outside its comments, however long they are") {
    CHECK(defined_functions(kScore + " { return score; }") == VKATTN_VARIANT_SCORE_MOD);
    CHECK(defined_functions("bool /* a */ mask_mod // b\n  (uint batch)") == VKATTN_VARIANT_MASK_MOD);
    CHECK(defined_functions("float score_mod_grad(float score)") == VKATTN_VARIANT_SCORE_MOD_GRAD);
    CHECK(defined_functions("void score_mod_grad_captured(float score)") == VKATTN_VARIANT_SCORE_MOD_GRAD_CAPTURED);
    CHECK(defined_functions("// " + kScore) == 0);
    CHECK(defined_functions("/* " + kScore) == 0); // without its end
    CHECK(defined_functions("float my_score_mod(float score); float score_mods(); int score_mod();") == 0);
    CHECK(defined_functions("\"" + kScore) == 0);
    for (const char *begin : {"/*", "//", "float ", "\""}) {
        const std::string padding = begin + std::string(900000, begin[0] == 'f' ? ' ' : 'x');
        const std::string text = padding + (begin[1] == '*' ? "*/" : "\n") + kScore + " { return score; }";
        CHECK(defined_functions(text) == VKATTN_VARIANT_SCORE_MOD);
        CHECK(fault_of_text(text).empty());
    }
    CHECK(fault_of_text(std::string((1 << 20) + 1, ' ')) == "functions: 1048577 bytes, expected at most 1048576");
}

TEST_CASE("resources, shared memory, barriers and other texts are refused at their places") {
    CHECK(fault_of_text(named(kScore + " { return score; }")).empty());
    CHECK(fault_of_text(named("\n  layout(set = 1, binding = 0) buffer X { uint x[]; };")) ==
          "f:2:3: 'layout' : a resource, expected functions of their arguments and of captured tensors alone");
    CHECK(fault_of_text(named("shared float counter[1000000];")).starts_with("f:1:1: 'shared' : shared memory"));
    CHECK(fault_of_text(named(kScore + " { barrier(); return score; }")).find("'barrier' : a barrier") !=
          std::string::npos);
    CHECK(fault_of_text(named("uniform float x;")).starts_with("f:1:1: 'uniform' : a resource"));
    CHECK(fault_of_text(named("#include \"variant_functions.glsl\"")).starts_with("f:1:2: 'include' : another text"));
    CHECK(fault_of_text(named("#  /* */ include <x>")).find("'include'") != std::string::npos);
    CHECK(fault_of_text(named("// a shared barrier\nfloat sharedness, my_layout;")).empty());
    // what a compiler joins, and this does not
    CHECK(fault_of_text(named("sha\\\nred float x;")).starts_with("f:1:4: "));
    CHECK(fault_of_text(named("/* *\\\r\n/ shared float x; */")).starts_with("f:1:5: "));
    CHECK(fault_of_text(named("#define S(a, b) a##b\nS(sha, red) float x;")).starts_with("f:1:19: '##'"));
    CHECK(fault_of_text(named("#define TWICE(x) \\\n    (2.0 * (x))\n")).empty());
}

TEST_CASE("a statement has an end") {
    std::string sum = kScore + " { return score";
    for (int i = 0; i < 3000; ++i) sum += " + score";
    CHECK(fault_of_text(named(sum + "; }")).find("a statement of more than 4096 words") != std::string::npos);
    std::string statements = kScore + " {\n";
    for (int i = 0; i < 3000; ++i) statements += "score += score;\n";
    CHECK(fault_of_text(named(statements + "return score; }")).empty());
}

TEST_CASE("an error has the place of the last whole word that it quotes") {
    const std::string text = named(kScore + " { return scor; }");
    CHECK(first_error("WARNING: f:1: x\nERROR: f:1: 'scor' : undeclared identifier \nERROR: 2 errors", text) ==
          "f:1:84: 'scor' : undeclared identifier ");
    CHECK(first_error("ERROR: f:1: '' : syntax error", text) == "f:1:1: '' : syntax error");
    CHECK(first_error("ERROR: f:1: no quotes", named("   x;")) == "f:1:4: no quotes");
    CHECK(first_error("ERROR: a:b:12: c:3: d", text) ==
          "a:b:12:1: c:3: d, expected functions with the parameters of vkattn/variants.h");
    CHECK(first_error("what glslang never says\nmore", text) == "what glslang never says");
    CHECK(first_error("ERROR: f:99999999999999999999: 'x' : y", text).starts_with("f:99999999999999999999:1: 'x' : y"));
}

TEST_CASE("#line directives say where a text is, whatever their numbers are") {
    CHECK(fault_of_text("#line 7 \"mine\"\nshared x;").starts_with("mine:7:1: "));
    CHECK(fault_of_text("#line 99999999999 \"far\"\nshared x;").starts_with(":2:1: ")); // none: left to the compiler
    CHECK(fault_of_text("#line 0 \"zero\"\n\nshared x;").starts_with("zero:1:1: "));
    CHECK(fault_of_text("#line 4294967295\n\n\nshared x;").starts_with(":4294967297:1: "));
    CHECK(fault_of_text("#line 3 \"no end\nshared x;").starts_with("no end:3:1: "));
    CHECK(fault_of_text("#line 1 \"a\"\n\n#line 1 \"b\"\n\nshared x;").starts_with("b:2:1: "));
    CHECK(first_error("ERROR: b:1: 'two' : x", "#line 1 \"a\"\none\n#line 1 \"b\"\n  two\n") == "b:1:3: 'two' : x");
    CHECK(fault_of_text("#").empty());
    CHECK(fault_of_text("#line").empty());
    CHECK(fault_of_text("#line 5 \"").empty());
}

TEST_SUITE_END();
