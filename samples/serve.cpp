// Serving by continuous batching, on the operators: requests arrive while others are being answered, and every step is one
// packed batch of prompts and single tokens over a pool of pages.
//
// - a request is admitted when there are pages for its prompt
// - all prompts begin with the same system prompt, whose pages are computed once and shared by reference count
// - where pages run out, the sequence that was admitted last is put out; later its tokens are computed again
//
// Every answer is compared with that of the same request alone, in a pool of its own without sharing.
#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <random>
#include <stdexcept>

namespace {

constexpr std::uint32_t kHeads = 4, kKvHeads = 2, kHeadDim = 32, kWidth = kHeads * kHeadDim,
                        kKvWidth = kKvHeads * kHeadDim;
constexpr std::uint32_t kPageSize = 8, kPages = 22, kPagesOfSequence = 12; // tokens; in the pool; at most
constexpr std::uint32_t kSequences = 5, kStepTokens = 120;                 // of one step, at most
constexpr std::uint32_t kVocabulary = 64, kSystemTokens = 3 * kPageSize;

constexpr std::uint32_t pages_for(std::size_t tokens) {
    return static_cast<std::uint32_t>((tokens + kPageSize - 1) / kPageSize);
}

struct Request {
    std::uint32_t arrives; // at this step
    std::vector<std::uint32_t> prompt;
    std::uint32_t answer_tokens;
};

// A request on its way, and what became of it.
struct Sequence {
    const Request *request = nullptr;
    std::vector<std::uint32_t> tokens; // the prompt, and the answer so far
    std::vector<std::int32_t> pages;
    std::uint32_t computed = 0;  // tokens whose keys and values are in the pages
    std::vector<float> attended; // what attention gave for each token of the answer
    std::uint32_t first_step = 0, last_step = 0, times_put_out = 0, shared_pages = 0;

    std::size_t answered() const { return attended.size() / kWidth; }
};

// Which pages are free, and by how many each of the others is used.
class PagePool {
  public:
    explicit PagePool(std::uint32_t pages) : users_(pages, 0) {
        for (std::uint32_t page = pages; page > 0; --page) free_.push_back(static_cast<std::int32_t>(page) - 1);
    }
    std::size_t free() const { return free_.size(); }
    std::size_t most_used() const { return most_used_; }

    std::int32_t take() {
        const std::int32_t page = free_.back();
        free_.pop_back();
        users_.at(static_cast<std::size_t>(page)) = 1;
        most_used_ = std::max(most_used_, users_.size() - free_.size());
        return page;
    }
    void share(std::int32_t page) { ++users_.at(static_cast<std::size_t>(page)); }
    void give_back(std::int32_t page) {
        if (--users_.at(static_cast<std::size_t>(page)) == 0) free_.push_back(page);
    }

  private:
    std::vector<std::uint32_t> users_;
    std::vector<std::int32_t> free_;
    std::size_t most_used_ = 0;
};

// In place of a model: what stands before attention gives a token at a position these rows, ...
class Model {
  public:
    Model()
        : queries_(random(kRows * kWidth, 1)), keys_(random(kRows * kKvWidth, 2)), values_(random(kRows * kKvWidth, 3)),
          words_(random(kVocabulary * kWidth, 4)) {}

    void add_rows(std::uint32_t token, std::uint32_t position, std::vector<float> &query, std::vector<float> &key,
                  std::vector<float> &value) const {
        const std::uint32_t row = (token * 31 + position) % kRows;
        append(query, queries_, row, kWidth);
        append(key, keys_, row, kKvWidth);
        append(value, values_, row, kKvWidth);
    }
    // ... and what comes after it chooses the next token.
    std::uint32_t next_token(std::span<const float> attended) const {
        std::vector<float> scores(kVocabulary);
        for (std::uint32_t word = 0; word < kVocabulary; ++word)
            for (std::uint32_t i = 0; i < kWidth; ++i) scores[word] += words_[word * kWidth + i] * attended[i];
        return static_cast<std::uint32_t>(std::ranges::max_element(scores) - scores.begin());
    }

  private:
    static constexpr std::uint32_t kRows = 509;
    static std::vector<float> random(std::size_t count, unsigned seed) {
        std::mt19937 engine(seed);
        std::normal_distribution<float> normal;
        std::vector<float> values(count);
        std::ranges::generate(values, [&] { return normal(engine); });
        return values;
    }
    static void append(std::vector<float> &rows, const std::vector<float> &table, std::uint32_t row,
                       std::uint32_t width) {
        const auto first = table.begin() + static_cast<std::ptrdiff_t>(row * width);
        rows.insert(rows.end(), first, first + width);
    }

    std::vector<float> queries_, keys_, values_, words_;
};

// Tokens lie one after the other, the heads of each side by side: [1, heads, tokens, head_dim] by its strides.
vkattn_tensor packed(std::uint64_t heads) {
    return vkattn::tensor(VKATTN_TYPE_F32, {1, heads, kStepTokens, kHeadDim},
                          {kStepTokens * heads * kHeadDim, kHeadDim, heads * kHeadDim, 1});
}

// The device's part: plans for any batch up to the maxima, made once, over a pool of pages.
class PagedAttention {
  public:
    explicit PagedAttention(const vkattn::Context &context) : context_(context) {
        desc_.query = desc_.output = packed(kHeads);
        desc_.key = desc_.value = vkattn::tensor(VKATTN_TYPE_F16, {kPages, kKvHeads, kPageSize, kHeadDim});
        desc_.cu_seqlens_q = vkattn::tensor(VKATTN_TYPE_I32, {kSequences + 1});
        desc_.key_lengths = vkattn::tensor(VKATTN_TYPE_I32, {kSequences});
        desc_.block_table = vkattn::tensor(VKATTN_TYPE_I32, {kSequences, kPagesOfSequence});
        desc_.mask_flags = VKATTN_MASK_CAUSAL;
        desc_.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT; // the last query of a sequence sees all its keys
        attend_ = context.attention_plan(desc_);
        vkattn_kv_append_desc append{};
        append.source = packed(kKvHeads);
        append.cache = desc_.key;
        append.cu_seqlens = desc_.cu_seqlens_q;
        append.past_lengths = desc_.key_lengths; // the same layout
        append.block_table = desc_.block_table;
        append_ = context.kv_append_plan(append);
        query_ = context.buffer(desc_.query);
        output_ = context.buffer(desc_.output);
        key_rows_ = context.buffer(append.source);
        value_rows_ = context.buffer(append.source);
        keys_ = context.buffer(desc_.key);
        values_ = context.buffer(desc_.value);
        starts_ = context.buffer(desc_.cu_seqlens_q);
        past_ = context.buffer(desc_.key_lengths);
        held_ = context.buffer(desc_.key_lengths);
        pages_ = context.buffer(desc_.block_table);
    }

    // Appends the tokens of each sequence that are not computed yet, and attends. Returns rows of kWidth, packed.
    std::vector<float> run(const Model &model, std::span<Sequence *const> batch) {
        std::vector<float> query, key, value;
        std::vector<std::int32_t> starts = {0}, past, held, pages;
        for (const Sequence *sequence : batch) {
            const auto tokens = static_cast<std::uint32_t>(sequence->tokens.size());
            for (std::uint32_t position = sequence->computed; position < tokens; ++position)
                model.add_rows(sequence->tokens[position], position, query, key, value);
            starts.push_back(static_cast<std::int32_t>(query.size() / kWidth));
            past.push_back(static_cast<std::int32_t>(sequence->computed));
            held.push_back(static_cast<std::int32_t>(tokens));
            pages.insert(pages.end(), sequence->pages.begin(), sequence->pages.end());
            pages.resize(held.size() * kPagesOfSequence, -1); // no page
        }
        starts.resize(kSequences + 1, starts.back()); // the others are empty
        past.resize(kSequences);
        held.resize(kSequences);
        pages.resize(kSequences * kPagesOfSequence, -1);
        query_.write(query);
        key_rows_.write(key);
        value_rows_.write(value);
        starts_.write(starts);
        past_.write(past);
        held_.write(held);
        pages_.write(pages);
        append(key_rows_, keys_);
        append(value_rows_, values_);
        attend_.submit({vkattn::bind(VKATTN_ROLE_QUERY, query_), vkattn::bind(VKATTN_ROLE_KEY, keys_),
                        vkattn::bind(VKATTN_ROLE_VALUE, values_), vkattn::bind(VKATTN_ROLE_CU_SEQLENS_Q, starts_),
                        vkattn::bind(VKATTN_ROLE_KEY_LENGTHS, held_), vkattn::bind(VKATTN_ROLE_BLOCK_TABLE, pages_),
                        vkattn::bind(VKATTN_ROLE_OUTPUT, output_)});
        context_.wait();
        output_.read(query);
        return query;
    }

  private:
    void append(const vkattn::Buffer &rows, const vkattn::Buffer &pool) const {
        append_.submit({vkattn::bind(VKATTN_ROLE_SOURCE, rows), vkattn::bind(VKATTN_ROLE_CACHE, pool),
                        vkattn::bind(VKATTN_ROLE_CU_SEQLENS_Q, starts_), vkattn::bind(VKATTN_ROLE_PAST_LENGTHS, past_),
                        vkattn::bind(VKATTN_ROLE_BLOCK_TABLE, pages_)});
    }

    const vkattn::Context &context_;
    vkattn_attention_desc desc_{};
    vkattn::Plan append_, attend_;
    vkattn::Buffer query_, output_, key_rows_, value_rows_, keys_, values_, starts_, past_, held_, pages_;
};

class Server {
  public:
    // system: tokens that are computed once, for every prompt that begins with them; whole pages, so that nobody writes
    // to a page that is shared.
    Server(PagedAttention &attention, const Model &model, std::span<const std::uint32_t> system)
        : attention_(attention), model_(model) {
        if (system.size() % kPageSize != 0) throw std::runtime_error("the system prompt must fill its pages");
        system_.tokens.assign(system.begin(), system.end());
        if (system.empty()) return;
        grow(system_);
        attention_.run(model_, std::vector{&system_});
        system_.computed = static_cast<std::uint32_t>(system.size());
    }

    // Answers them all. Their order is that of their arrival.
    std::deque<Sequence> serve(std::span<const Request> requests) {
        std::deque<Sequence> all;
        for (const Request &request : requests) {
            const std::size_t most = request.prompt.size() + request.answer_tokens;
            if (pages_for(most) > kPagesOfSequence || most > kStepTokens)
                throw std::runtime_error("a request is too long for the block table or for a step");
            Sequence &sequence = all.emplace_back();
            sequence.request = &request;
            sequence.tokens = request.prompt;
            waiting_.push_back(&sequence);
        }
        for (step_ = 0; !waiting_.empty() || !running_.empty(); ++step_) {
            if (!make_room()) admit();
            if (!running_.empty()) run();
        }
        return all;
    }

    std::uint32_t steps() const { return step_; }
    const PagePool &pool() const { return pool_; }

  private:
    std::uint32_t missing_pages(const Sequence &sequence) const {
        return pages_for(sequence.tokens.size()) - static_cast<std::uint32_t>(sequence.pages.size());
    }
    void grow(Sequence &sequence) {
        for (std::uint32_t missing = missing_pages(sequence); missing > 0; --missing)
            sequence.pages.push_back(pool_.take());
    }

    // Pages for the next token of all that run, the oldest first. Returns whether somebody was put out for that.
    bool make_room() {
        bool put_out = false;
        for (std::size_t i = 0; i < running_.size(); ++i) {
            while (i < running_.size() && missing_pages(*running_[i]) > pool_.free()) {
                put_out_last();
                put_out = true;
            }
            if (i < running_.size()) grow(*running_[i]);
        }
        return put_out;
    }

    void put_out_last() {
        Sequence &last = *running_.back();
        running_.pop_back();
        release(last);
        ++last.times_put_out;
        waiting_.push_front(&last); // the first to come back
    }

    void release(Sequence &sequence) {
        for (const std::int32_t page : sequence.pages) pool_.give_back(page);
        sequence.pages.clear();
        sequence.computed = 0;
    }

    // Those who wait, in their order, while there are a place, pages and tokens in the step.
    void admit() {
        std::size_t tokens = running_.size(); // one each
        while (!waiting_.empty() && waiting_.front()->request->arrives <= step_ && running_.size() < kSequences) {
            Sequence &sequence = *waiting_.front();
            share_system(sequence);
            tokens += sequence.tokens.size() - sequence.computed;
            if (tokens > kStepTokens || missing_pages(sequence) > pool_.free()) {
                release(sequence);
                return;
            }
            waiting_.pop_front();
            grow(sequence);
            if (sequence.times_put_out == 0) sequence.first_step = step_;
            running_.push_back(&sequence);
        }
    }

    void share_system(Sequence &sequence) {
        const std::size_t common = std::min(system_.tokens.size(), sequence.tokens.size());
        if (!std::ranges::equal(system_.tokens, std::span(sequence.tokens).first(common))) return;
        for (const std::int32_t page : system_.pages) pool_.share(page);
        sequence.pages = system_.pages;
        sequence.computed = system_.computed;
        sequence.shared_pages = static_cast<std::uint32_t>(system_.pages.size());
    }

    void run() {
        const std::vector<float> attended = attention_.run(model_, running_);
        std::size_t row = 0; // after the sequence's last one
        for (Sequence *sequence : running_) {
            row += sequence->tokens.size() - sequence->computed;
            const auto last = std::span(attended).subspan((row - 1) * kWidth, kWidth);
            sequence->computed = static_cast<std::uint32_t>(sequence->tokens.size());
            sequence->attended.insert(sequence->attended.end(), last.begin(), last.end());
            sequence->tokens.push_back(model_.next_token(last));
            if (sequence->answered() == sequence->request->answer_tokens) {
                sequence->last_step = step_;
                release(*sequence);
            }
        }
        std::erase_if(running_, [](const Sequence *sequence) {
            return sequence->answered() == sequence->request->answer_tokens;
        });
    }

    PagedAttention &attention_;
    const Model &model_;
    PagePool pool_{kPages};
    Sequence system_;
    std::deque<Sequence *> waiting_;
    std::vector<Sequence *> running_; // in the order of their admission
    std::uint32_t step_ = 0;
};

std::vector<Request> make_requests(std::span<const std::uint32_t> system) {
    struct Sizes {
        std::uint32_t arrives, prompt, answer;
    };
    constexpr Sizes kSizes[] = {{0, 9, 20},  {0, 30, 24}, {1, 1, 30},  {2, 17, 12},
                                {4, 40, 16}, {4, 5, 28},  {9, 24, 20}, {30, 12, 6}};
    std::mt19937 random(11);
    std::vector<Request> requests;
    for (const Sizes &sizes : kSizes) {
        Request &request = requests.emplace_back(Request{sizes.arrives, {system.begin(), system.end()}, sizes.answer});
        for (std::uint32_t i = 0; i < sizes.prompt; ++i)
            request.prompt.push_back(static_cast<std::uint32_t>(random() % kVocabulary));
    }
    return requests;
}

float largest_difference(const std::vector<float> &a, const std::vector<float> &b) {
    if (a.size() != b.size()) return INFINITY;
    float largest = 0.0f;
    for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
    return largest;
}

} // namespace

int main() try {
    const vkattn::Context context;
    PagedAttention attention(context);
    const Model model;
    std::vector<std::uint32_t> system;
    for (std::uint32_t i = 0; i < kSystemTokens; ++i) system.push_back(i * 5 % kVocabulary);
    const std::vector<Request> requests = make_requests(system);
    Server server(attention, model, system);
    const std::deque<Sequence> answers = server.serve(requests);

    bool right = true;
    std::size_t tokens = 0;
    std::printf(
        "request  prompt  answer  arrives  admitted  done  put out  shared pages  largest difference to alone\n");
    for (const Sequence &answer : answers) {
        Request request = *answer.request;
        request.arrives = 0;
        const std::deque<Sequence> alone = Server(attention, model, {}).serve({&request, 1});
        const float difference = largest_difference(answer.attended, alone.front().attended);
        right = right && answer.tokens == alone.front().tokens && difference < 1e-4f;
        tokens += answer.answered();
        std::printf("%7zu  %6zu  %6zu  %7u  %8u  %4u  %7u  %12u  %.1e\n",
                    static_cast<std::size_t>(answer.request - requests.data()), request.prompt.size(),
                    answer.answered(), answer.request->arrives, answer.first_step, answer.last_step,
                    answer.times_put_out, answer.shared_pages, static_cast<double>(difference));
    }
    std::printf("%zu tokens in %u steps; %zu of %u pages in use at most\n", tokens, server.steps(),
                server.pool().most_used(), kPages);
    return right ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
