// Attention weights as a PNG picture: a panel a head, labelled axes, one colour scale.
#pragma once

#include <string>
#include <vector>

namespace vkattn::tools {

struct WeightsPanel {
    std::string title;
    std::vector<double> weights; // [queries, keys], 0 to 1
};

struct WeightsPicture {
    std::string title;
    std::string subtitle;
    std::size_t queries = 0;
    std::size_t keys = 0;
    std::vector<std::string> query_labels; // one a query, or none: numbers
    std::vector<std::string> key_labels;   // one a key, or none
    std::vector<WeightsPanel> panels;      // at least one
};

// Whether this build can draw (it needs cairo).
bool can_draw_png();

// Returns the bytes of a PNG file. Longer axes than a panel has pixels are pooled: a pixel shows its largest weight.
// Throws InputError if this build cannot draw.
std::string draw_png(const WeightsPicture &picture);

} // namespace vkattn::tools
