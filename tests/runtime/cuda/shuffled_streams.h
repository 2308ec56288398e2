// Streams on paper: what is put on them is run afterwards, on the host, in a random order out of those that a GPU could
// take: each stream in its own order, a wait only when what it waits for has been recorded.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "runtime/cuda/bf16.h"
#include "runtime/cuda/stream_work.h"

namespace sluice::cuda {

class ShuffledStreams : public StreamWork {
public:
    // `forgetful`: waits are not put on streams, as a transport without them would not.
    explicit ShuffledStreams(bool forgetful = false) : forgetful_(forgetful) {}

    Stream new_stream() {
        const std::lock_guard lock(mutex_);
        queues_.emplace_back();
        return reinterpret_cast<Stream>(queues_.size());  // a number, never followed
    }
    Event new_event() override {
        const std::lock_guard lock(mutex_);
        recorded_.push_back(0);
        return reinterpret_cast<Event>(recorded_.size());
    }
    void record(Event event, Stream stream) override {
        const std::lock_guard lock(mutex_);
        const std::uint64_t version = ++recorded_[number(event)];
        push(stream, {{}, 0, [this, event, version] { happened_[number(event)] = version; }});
    }
    void wait_for(Stream stream, Event event) override {
        if (forgetful_) return;
        const std::lock_guard lock(mutex_);
        push(stream, {event, recorded_[number(event)], {}});
    }
    void copy(Stream stream, const std::byte* from, std::byte* to, std::size_t bytes) override {
        call(stream, [=] { std::memmove(to, from, bytes); });
    }
    void sum(Stream stream, ElementType type, std::span<const std::byte* const> from, std::span<std::byte* const> into,
             std::size_t count) override {
        call(stream, [=, from = std::vector(from.begin(), from.end()), into = std::vector(into.begin(), into.end())] {
            for (std::size_t i = 0; i < count; ++i) add(type, from, into, i);
        });
    }
    void call(Stream stream, std::function<void()> work) {
        const std::lock_guard lock(mutex_);
        push(stream, {{}, 0, std::move(work)});
    }

    // Returns whether everything could run.
    bool run(std::uint32_t seed) {
        std::mt19937 random(seed);
        happened_.assign(recorded_.size(), 0);
        for (;;) {
            std::vector<std::size_t> able;
            bool empty = true;
            for (std::size_t q = 0; q < queues_.size(); ++q) {
                empty = empty && queues_[q].empty();
                if (!queues_[q].empty() && ready(queues_[q].front())) able.push_back(q);
            }
            if (able.empty()) return empty;
            std::deque<Item>& queue = queues_[able[random() % able.size()]];
            const Item item = std::move(queue.front());
            queue.pop_front();
            if (item.work) item.work();
        }
    }

private:
    struct Item {
        Event awaited = nullptr;  // until it is this far
        std::uint64_t version = 0;
        std::function<void()> work;
    };

    static std::size_t number(Event event) { return reinterpret_cast<std::size_t>(event) - 1; }
    void push(Stream stream, Item item) {
        queues_[reinterpret_cast<std::size_t>(stream) - 1].push_back(std::move(item));
    }
    bool ready(const Item& item) const {
        return item.awaited == nullptr || happened_[number(item.awaited)] >= item.version;
    }

    template <class Element>
    static Element at(const std::byte* values, std::size_t i) {
        Element value;
        std::memcpy(&value, values + i * sizeof(Element), sizeof(Element));
        return value;
    }
    static void add(ElementType type, const std::vector<const std::byte*>& from, const std::vector<std::byte*>& into,
                    std::size_t i) {
        double sum = 0;  // of small whole numbers: exact
        for (const std::byte* const values : from)
            sum += type == ElementType::kFp64   ? at<double>(values, i)
                   : type == ElementType::kFp32 ? static_cast<double>(at<float>(values, i))
                                                : static_cast<double>(to_float(at<Bf16>(values, i)));
        const auto single = static_cast<float>(sum);
        const Bf16 half = to_bf16(single);
        for (std::byte* const values : into) {
            if (type == ElementType::kFp64) std::memcpy(values + i * sizeof sum, &sum, sizeof sum);
            if (type == ElementType::kFp32) std::memcpy(values + i * sizeof single, &single, sizeof single);
            if (type == ElementType::kBf16) std::memcpy(values + i * sizeof half, &half, sizeof half);
        }
    }

    const bool forgetful_;
    std::mutex mutex_;
    std::vector<std::uint64_t> recorded_;  // by event: records put on streams
    std::vector<std::uint64_t> happened_;  // by event: the last of them that has run
    std::deque<std::deque<Item>> queues_;
};

}  // namespace sluice::cuda
