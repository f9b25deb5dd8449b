// simdjson on demand, in C++ written for this job alone: the fastest reader at hand that validates.
//
//     by_simdjson LOG K OUT THREADS
//
// Every byte is checked to be UTF-8, every text to end and to hold no bare control character, and the two fields to be
// what they should; values in between are skipped by their brackets, numbers and words in them unread. The log is
// mapped and never copied. Each thread reads a range of whole lines, and groups them only when all are read: between
// records a table falls out of the cache, and a look into it costs several times as much. Groups are told apart by 64
// bits of hash, as in by_duckdb.py.

#include <fcntl.h>
#include <simdjson.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr double BETA = 15.0, EPS = 1e-6;
constexpr size_t BATCH = 1 << 20;  // bytes that simdjson indexes at once; no record may be longer
constexpr size_t LEAST = sizeof R"({"group":"","reward":0})";  // bytes of the shortest record and of its line's end

struct Moments {
    double count = 0, mean = 0, squares = 0;

    void add(const Moments &other) {
        const double delta = other.mean - mean, share = other.count / (count + other.count);
        mean += delta * share;
        squares += other.squares + delta * delta * count * share;
        count += other.count;
    }

    double score(double reward) const {
        const double deviation = count > 1 ? std::sqrt(squares / (count - 1)) : 0.0;
        return (reward - mean) / (deviation + EPS);
    }
};

// A table with open addresses, at most half full.
class Groups {
   public:
    void add(uint64_t name, const Moments &some) {
        Slot &slot = slots[place(name)];
        used += slot.moments.count == 0;
        slot.name = name;
        slot.moments.add(some);
        if (2 * used > slots.size()) grow();
    }

    void add(const Groups &other) {
        for (const Slot &slot : other.slots)
            if (slot.moments.count > 0) add(slot.name, slot.moments);
    }

    const Moments &operator[](uint64_t name) const { return slots[place(name)].moments; }

   private:
    struct Slot {
        uint64_t name = 0;
        Moments moments;  // of none where the slot is free
    };

    std::vector<Slot> slots = std::vector<Slot>(1 << 12);
    size_t used = 0;

    size_t place(uint64_t name) const {
        const size_t mask = slots.size() - 1;
        size_t found = name & mask;
        while (slots[found].moments.count > 0 && slots[found].name != name) found = (found + 1) & mask;
        return found;
    }

    void grow() {
        std::vector<Slot> old(2 * slots.size());
        old.swap(slots);
        for (const Slot &slot : old)
            if (slot.moments.count > 0) slots[place(slot.name)] = slot;
    }
};

struct Row {
    uint64_t name;
    double reward;
    const char *line;
};

struct Drawn {
    double key;
    const char *line;

    bool operator>(const Drawn &other) const { return key > other.key; }
};

struct Part {
    std::string_view text;
    std::vector<Row> rows{};
    Groups groups{};
    std::vector<Drawn> drawn{};
};

// The whole file, and readable zeros behind it, as far as simdjson may look.
std::string_view mapped(const char *path) {
    struct stat about {};
    const int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &about) != 0) throw std::runtime_error(std::string("cannot read ") + path);
    const auto size = static_cast<size_t>(about.st_size);
    const size_t padded = size + simdjson::SIMDJSON_PADDING;
    void *room = mmap(nullptr, padded, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED || mmap(room, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED)
        throw std::runtime_error(std::string("cannot map ") + path);
    return {static_cast<const char *>(room), size};
}

size_t line_end(std::string_view text, size_t from) {
    const size_t found = text.find('\n', from);
    return found == text.npos ? text.size() : found + 1;
}

std::vector<Part> cut(std::string_view text, size_t count) {
    std::vector<Part> parts;
    for (size_t begin = 0, part = 1; part <= count; ++part) {
        const size_t end = part == count ? text.size() : std::max(begin, line_end(text, text.size() * part / count));
        parts.push_back({text.substr(begin, end - begin)});
        begin = end;
    }
    return parts;
}

void read(Part &part) {
    part.rows.reserve(part.text.size() / std::max(line_end(part.text, 0), LEAST) * 5 / 4);  // as long as the first
    simdjson::ondemand::parser parser;
    parser.threaded = false;  // or it indexes the next batch in a thread that nobody asked for
    simdjson::ondemand::document_stream records = parser.iterate_many(part.text.data(), part.text.size(), BATCH);
    for (auto record = records.begin(); record != records.end(); ++record) {
        auto document = *record;
        const std::string_view group = document["group"];
        const uint64_t name = std::hash<std::string_view>{}(group);
        part.rows.push_back({name, document["reward"], part.text.data() + record.current_index()});
    }
    if (records.truncated_bytes() > 0) throw std::runtime_error("the last record is torn");
    for (const Row &row : part.rows) part.groups.add(row.name, {1, row.reward, 0});
}

// The largest Gumbel keys of a part, as a heap with the least of them in front.
void draw(Part &part, const Groups &groups, size_t k, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::extreme_value_distribution<double> gumbel;
    part.drawn.reserve(k);
    for (const Row &row : part.rows) {
        const Drawn one{BETA * groups[row.name].score(row.reward) + gumbel(random), row.line};
        if (part.drawn.size() == k) {
            if (!(one > part.drawn.front())) continue;
            std::pop_heap(part.drawn.begin(), part.drawn.end(), std::greater<>());
            part.drawn.pop_back();
        }
        part.drawn.push_back(one);
        std::push_heap(part.drawn.begin(), part.drawn.end(), std::greater<>());
    }
}

// The largest keys of all parts, in the order of the log.
std::vector<Drawn> largest(const std::vector<Part> &parts, size_t k) {
    std::vector<Drawn> all;
    for (const Part &part : parts) all.insert(all.end(), part.drawn.begin(), part.drawn.end());
    if (all.size() < k) throw std::runtime_error("fewer records than are to be drawn");
    std::nth_element(all.begin(), all.begin() + static_cast<ptrdiff_t>(k), all.end(), std::greater<>());
    all.resize(k);
    std::sort(all.begin(), all.end(), [](const Drawn &a, const Drawn &b) { return a.line < b.line; });
    return all;
}

template <typename Work>
void in_parallel(std::vector<Part> &parts, Work work) {
    std::vector<std::future<void>> others;
    for (size_t part = 1; part < parts.size(); ++part)
        others.push_back(std::async(std::launch::async, [&parts, &work, part] { work(parts[part], part); }));
    work(parts[0], 0);
    for (auto &other : others) other.get();
}

void run(const char *log, size_t k, const char *out, size_t threads) {
    const std::string_view text = mapped(log);
    std::vector<Part> parts = cut(text, threads);
    in_parallel(parts, [](Part &part, size_t) { read(part); });
    Groups &groups = parts[0].groups;
    for (size_t part = 1; part < parts.size(); ++part) groups.add(parts[part].groups);
    in_parallel(parts, [&groups, k](Part &part, size_t seed) { draw(part, groups, k, seed); });
    std::ofstream file(out, std::ios::binary);
    for (const Drawn &one : largest(parts, k)) {
        const auto start = static_cast<size_t>(one.line - text.data());
        file.write(one.line, static_cast<std::streamsize>(line_end(text, start) - start));
    }
    if (!file.flush()) throw std::runtime_error(std::string("cannot write ") + out);
}

}  // namespace

int main(int count, char **words) {
    if (count != 5) {
        std::cerr << "usage: by_simdjson LOG K OUT THREADS\n";
        return 2;
    }
    try {
        run(words[1], std::stoul(words[2]), words[3], std::max(std::stoul(words[4]), 1UL));
    } catch (const std::exception &error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
