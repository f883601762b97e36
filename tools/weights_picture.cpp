#include "weights_picture.hpp"

#include "input_error.hpp"
#include "weights_map.hpp"

#ifdef VKATTN_WITH_CAIRO

#include <cairo.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>

namespace vkattn::tools {
namespace {

constexpr double kMargin = 24, kGap = 28, kTitle = 52, kPanelTitle = 22, kFont = 11, kScaleWidth = 70;
constexpr std::size_t kColumns = 4;
constexpr double kLongSide = 260;           // of a panel, in pixels
constexpr std::size_t kMostTextLabels = 40; // of an axis

struct Colour {
    double red, green, blue;
};

// White for 0 to a dark blue, equal steps in lightness.
Colour colour_of(double part) {
    constexpr std::array<Colour, 6> kStops{{{1.00, 1.00, 1.00},
                                            {0.85, 0.91, 0.97},
                                            {0.62, 0.79, 0.88},
                                            {0.33, 0.60, 0.78},
                                            {0.13, 0.39, 0.65},
                                            {0.03, 0.19, 0.42}}};
    const double place = std::clamp(part, 0.0, 1.0) * (kStops.size() - 1);
    const auto from = std::min(static_cast<std::size_t>(place), kStops.size() - 2);
    const double mix = place - static_cast<double>(from);
    const Colour &a = kStops[from], &b = kStops[from + 1];
    return {a.red + (b.red - a.red) * mix, a.green + (b.green - a.green) * mix, a.blue + (b.blue - a.blue) * mix};
}

struct Destroy {
    void operator()(cairo_surface_t *surface) const { cairo_surface_destroy(surface); }
    void operator()(cairo_t *cairo) const { cairo_destroy(cairo); }
};

// One axis: entries, pixels, and how far apart its labels stand.
struct Axis {
    std::size_t entries;
    double length;
    const std::vector<std::string> &labels;

    std::size_t cells() const { return std::min(entries, static_cast<std::size_t>(length)); }
    double cell() const { return length / static_cast<double>(cells()); }
    bool has_text() const { return !labels.empty() && entries <= kMostTextLabels; }
    // Every label where there are texts, else about six round numbers.
    std::size_t step() const {
        if (has_text()) return 1;
        const double rough = static_cast<double>(entries) / 6;
        const double power = std::pow(10.0, std::floor(std::log10(std::max(rough, 1.0))));
        for (const double factor : {1.0, 2.0, 5.0})
            if (rough <= factor * power) return static_cast<std::size_t>(factor * power);
        return static_cast<std::size_t>(10 * power);
    }
    std::string label(std::size_t entry) const { return has_text() ? labels[entry] : std::to_string(entry); }
    double middle(std::size_t entry) const {
        return (static_cast<double>(entry) + 0.5) / static_cast<double>(entries) * length;
    }
};

class Painter {
  public:
    explicit Painter(const WeightsPicture &picture)
        : picture_(picture), keys_{picture.keys, side(picture.keys), picture.key_labels},
          queries_{picture.queries, side(picture.queries), picture.query_labels},
          columns_(std::min(kColumns, picture.panels.size())),
          rows_((picture.panels.size() + columns_ - 1) / columns_) {
        for (const WeightsPanel &panel : picture.panels)
            largest_ = std::max(largest_, *std::ranges::max_element(panel.weights));
        measure_labels();
        const double width = 2 * kMargin + static_cast<double>(columns_) * panel_width() + kScaleWidth;
        const double height = kTitle + kMargin + static_cast<double>(rows_) * panel_height();
        surface_.reset(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(std::max(width, 480.0)),
                                                  static_cast<int>(height)));
        cairo_.reset(cairo_create(surface_.get()));
    }

    std::string paint() {
        cairo_set_source_rgb(cairo_.get(), 1, 1, 1);
        cairo_paint(cairo_.get());
        write(kMargin, 24, picture_.title, 15, true);
        write(kMargin, 42, picture_.subtitle, kFont, false);
        for (std::size_t i = 0; i < picture_.panels.size(); ++i) {
            cairo_save(cairo_.get());
            cairo_translate(cairo_.get(), kMargin + static_cast<double>(i % columns_) * panel_width() + left_,
                            kTitle + static_cast<double>(i / columns_) * panel_height() + kPanelTitle);
            paint_panel(picture_.panels[i]);
            cairo_restore(cairo_.get());
        }
        paint_scale();
        return encoded();
    }

  private:
    // The longer axis gets the whole side; a short one at least enough to read.
    double side(std::size_t entries) const {
        const auto longest = static_cast<double>(std::max(picture_.keys, picture_.queries));
        return std::max(kLongSide * static_cast<double>(entries) / longest, std::min(40.0, kLongSide));
    }
    double panel_width() const { return left_ + keys_.length + kGap; }
    double panel_height() const { return kPanelTitle + queries_.length + below_ + 14; }

    double text_width(const std::string &text) const {
        const std::unique_ptr<cairo_surface_t, Destroy> surface(cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1));
        const std::unique_ptr<cairo_t, Destroy> cairo(cairo_create(surface.get()));
        cairo_select_font_face(cairo.get(), "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
        cairo_set_font_size(cairo.get(), kFont);
        cairo_text_extents_t extents;
        cairo_text_extents(cairo.get(), text.c_str(), &extents);
        return extents.x_advance;
    }

    // Room left of a panel for queries, below it for keys (whose texts stand upright) and for the axes' names.
    void measure_labels() {
        for (std::size_t i = 0; i < queries_.entries; i += queries_.step())
            left_ = std::max(left_, text_width(queries_.label(i)) + 24);
        if (!keys_.has_text()) return;
        for (std::size_t i = 0; i < keys_.entries; ++i) below_ = std::max(below_, text_width(keys_.label(i)) + 26);
    }

    void write(double x, double y, const std::string &text, double size, bool bold) {
        cairo_select_font_face(cairo_.get(), "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                               bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
        cairo_set_font_size(cairo_.get(), size);
        cairo_set_source_rgb(cairo_.get(), 0.13, 0.13, 0.13);
        cairo_move_to(cairo_.get(), x, y);
        cairo_show_text(cairo_.get(), text.c_str());
    }

    void write_upright(double x, double y, const std::string &text) { // ends at (x, y), read from below
        cairo_save(cairo_.get());
        cairo_translate(cairo_.get(), x, y);
        cairo_rotate(cairo_.get(), -std::acos(-1.0) / 2);
        write(0, 0, text, kFont, false);
        cairo_restore(cairo_.get());
    }

    void paint_panel(const WeightsPanel &panel) {
        write(0, -7, panel.title, kFont + 1, true);
        for (std::size_t y = 0; y < queries_.cells(); ++y)
            for (std::size_t x = 0; x < keys_.cells(); ++x) paint_cell(panel, x, y);
        cairo_set_source_rgb(cairo_.get(), 0.6, 0.6, 0.6);
        cairo_set_line_width(cairo_.get(), 1);
        cairo_rectangle(cairo_.get(), -0.5, -0.5, keys_.length + 1, queries_.length + 1);
        cairo_stroke(cairo_.get());
        for (std::size_t i = 0; i < queries_.entries; i += queries_.step())
            write(-6 - text_width(queries_.label(i)), queries_.middle(i) + 4, queries_.label(i), kFont, false);
        for (std::size_t i = 0; i < keys_.entries; i += keys_.step()) {
            const std::string label = keys_.label(i);
            if (keys_.has_text())
                write_upright(keys_.middle(i) + 4, queries_.length + 6 + text_width(label), label);
            else
                write(keys_.middle(i) - text_width(label) / 2, queries_.length + 14, label, kFont, false);
        }
        write(keys_.length / 2 - 12, queries_.length + below_ - 6, "keys", kFont, false);
        write_upright(-left_ + 12, queries_.length / 2 + 20, "queries");
    }

    // The largest weight of the entries that share the pixel.
    void paint_cell(const WeightsPanel &panel, std::size_t x, std::size_t y) {
        const double weight =
            pooled_weight(panel.weights, picture_.queries, picture_.keys, queries_.cells(), keys_.cells(), y, x);
        const Colour colour = colour_of(largest_ > 0 ? std::sqrt(weight / largest_) : 0);
        cairo_set_source_rgb(cairo_.get(), colour.red, colour.green, colour.blue);
        const double left = std::floor(static_cast<double>(x) * keys_.cell());
        const double top = std::floor(static_cast<double>(y) * queries_.cell());
        cairo_rectangle(cairo_.get(), left, top, std::floor(static_cast<double>(x + 1) * keys_.cell()) - left,
                        std::floor(static_cast<double>(y + 1) * queries_.cell()) - top);
        cairo_fill(cairo_.get());
    }

    void paint_scale() {
        constexpr double kHeight = 160;
        const double x = kMargin + static_cast<double>(columns_) * panel_width(), top = kTitle + kPanelTitle;
        for (int i = 0; i < static_cast<int>(kHeight); ++i) {
            const Colour colour = colour_of(1.0 - i / kHeight);
            cairo_set_source_rgb(cairo_.get(), colour.red, colour.green, colour.blue);
            cairo_rectangle(cairo_.get(), x, top + i, 14, 1);
            cairo_fill(cairo_.get());
        }
        cairo_set_source_rgb(cairo_.get(), 0.6, 0.6, 0.6);
        cairo_set_line_width(cairo_.get(), 1);
        cairo_rectangle(cairo_.get(), x - 0.5, top - 0.5, 15, kHeight + 1);
        cairo_stroke(cairo_.get());
        for (const double place : {0.0, 0.5, 1.0}) { // roots of weights, so that small ones can be seen
            std::array<char, 16> number{};
            std::snprintf(number.data(), number.size(), "%.3g", largest_ * place * place);
            write(x + 20, top + kHeight * (1 - place) + 4, number.data(), kFont, false);
        }
        write(x, top - 14, "weight", kFont, false);
    }

    std::string encoded() {
        std::string bytes;
        const auto append = [](void *to, const unsigned char *data, unsigned length) {
            static_cast<std::string *>(to)->append(reinterpret_cast<const char *>(data), length);
            return CAIRO_STATUS_SUCCESS;
        };
        const cairo_status_t status = cairo_surface_write_to_png_stream(surface_.get(), append, &bytes);
        if (status != CAIRO_STATUS_SUCCESS)
            throw InputError("picture", std::string(cairo_status_to_string(status)) + ", expected fewer heads");
        return bytes;
    }

    const WeightsPicture &picture_;
    Axis keys_, queries_;
    std::size_t columns_, rows_;
    double largest_ = 0, left_ = 40, below_ = 34;
    std::unique_ptr<cairo_surface_t, Destroy> surface_;
    std::unique_ptr<cairo_t, Destroy> cairo_;
};

} // namespace

bool can_draw_png() { return true; }

std::string draw_png(const WeightsPicture &picture) { return Painter(picture).paint(); }

} // namespace vkattn::tools

#else

namespace vkattn::tools {

bool can_draw_png() { return false; }

std::string draw_png(const WeightsPicture &) {
    throw InputError("--output",
                     "this build has no cairo, expected one with it (Debian: libcairo2-dev) to draw PNG files");
}

} // namespace vkattn::tools

#endif
