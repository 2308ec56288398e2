#include "runtime/cuda/stand_in_transport.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/disturbance.h"
#include "runtime/cuda/plausible_values.h"
#include "runtime/cuda/stream_events.h"

namespace sluice::cuda {
namespace {

constexpr std::size_t kMostStreams = 64;  // that messages are put on: lanes of a rank

std::uint64_t nanoseconds(Seconds time) { return static_cast<std::uint64_t>(std::max(time.value, 0.0) * 1e9); }

class StandInTransport : public Transport {
public:
    StandInTransport(const TransportParts& parts, Rank rank, const DevicePart& device, const StandIns& stand_ins,
                     Tokens sequence)
        : schedule_(parts.schedule),
          groups_(parts.groups),
          rank_(rank),
          stand_ins_(stand_ins),
          sequence_(sequence),
          own_stream_((device.make_current(), device.new_stream())),
          step_begun_(1),
          marks_(Bytes{static_cast<std::int64_t>((1 + kMostStreams) * sizeof(std::uint64_t))}, "marks of messages") {
        streams_.reserve(kMostStreams);
    }

    void begin_step() override {
        if (stand_ins_.times.empty()) return;
        mark_time(own_stream_.get(), step_mark());
        record(step_begun_[0], own_stream_.get());
    }

    void all_gather(const TransportCall& call, GroupId, std::span<const std::byte> mine,
                    std::span<std::byte> all) override {
        begin(call);
        for (std::size_t at = 0; at < all.size(); at += mine.size())
            copy(call.stream, mine, all.subspan(at, mine.size()));
        end(call);
    }
    void reduce_scatter(const TransportCall& call, GroupId group, ElementType, std::span<const std::byte> all,
                        std::span<std::byte> mine) override {
        begin(call);
        copy(call.stream, all.subspan(own_place(group) * mine.size(), mine.size()), mine);
        end(call);
    }
    void all_gather_shares(const TransportCall& call, GroupId, ElementType,
                           std::span<const std::span<std::byte>>) override {
        begin(call);
        end(call);
    }
    void reduce_scatter_shares(const TransportCall& call, GroupId, ElementType,
                               std::span<const std::span<std::byte>>) override {
        begin(call);
        end(call);
    }
    void all_reduce(const TransportCall& call, GroupId, ElementType, std::span<const std::span<std::byte>>) override {
        begin(call);
        end(call);
    }
    void all_to_all(const TransportCall& call, GroupId, std::span<const std::span<const std::byte>> out,
                    std::span<const std::span<std::byte>> in) override {
        begin(call);
        for (std::size_t k = 0; k < in.size(); ++k) copy(call.stream, out[k], in[k]);
        end(call);
    }
    void send(const TransportCall& call, Rank, std::span<const std::byte>) override {
        begin(call);
        end(call);
    }
    void receive(const TransportCall& call, Rank, std::span<std::byte> bytes) override {
        begin(call);
        const float scale = plausible_scale(schedule_.ops[index(call.op)].tag.phase, sequence_);
        fill_plausible(call.stream, reinterpret_cast<Bf16*>(bytes.data()),
                       static_cast<std::int64_t>(bytes.size() / sizeof(Bf16)), scale, index(call.op));
        end(call);
    }

private:
    std::uint64_t* step_mark() const { return marks_.as<std::uint64_t>(); }

    // Of the message on the call's stream: one at a time.
    std::uint64_t* mark_of(Stream stream) {
        auto at = std::find(streams_.begin(), streams_.end(), stream);
        if (at == streams_.end()) {
            SLUICE_CHECK(streams_.size() < kMostStreams, "a rank has fewer lanes");
            at = streams_.insert(streams_.end(), stream);
        }
        return marks_.as<std::uint64_t>() + 1 + (at - streams_.begin());
    }

    void begin(const TransportCall& call) {
        if (stand_ins_.of(call.op).lasts.value > 0) mark_time(call.stream, mark_of(call.stream));
    }
    void end(const TransportCall& call) {
        const StandInTime time = stand_ins_.of(call.op);
        if (time.lasts.value > 0) hold_until(call.stream, mark_of(call.stream), nanoseconds(time.lasts));
        if (!time.not_before) return;
        wait_for(call.stream, step_begun_[0]);
        hold_until(call.stream, step_mark(), nanoseconds(*time.not_before));
    }

    std::size_t own_place(GroupId group) const {
        const std::vector<Rank>& members = groups_[index(group)].members;
        return static_cast<std::size_t>(std::find(members.begin(), members.end(), rank_) - members.begin());
    }

    static void copy(Stream stream, std::span<const std::byte> from, std::span<std::byte> to) {
        if (from.data() != to.data())
            check(cudaMemcpyAsync(to.data(), from.data(), from.size(), cudaMemcpyDeviceToDevice, stream),
                  "a message to oneself");
    }

    const Schedule& schedule_;
    const std::span<const Group> groups_;
    const Rank rank_;
    const StandIns stand_ins_;
    const Tokens sequence_;
    OwnedStream own_stream_;  // where the begin of a step is marked
    Events step_begun_;       // one
    DeviceMemory marks_;      // times: of the step's begin, then by stream
    std::vector<Stream> streams_;
};

}  // namespace

TransportMaker stand_in_transport(StandIns stand_ins, Tokens sequence) {
    return [stand_ins = std::move(stand_ins), sequence](const TransportParts& parts) {
        std::vector<std::unique_ptr<Transport>> transports;
        for (std::size_t k = 0; k < parts.local.size(); ++k)
            transports.push_back(
                std::make_unique<StandInTransport>(parts, parts.local[k], *parts.devices[k], stand_ins, sequence));
        return transports;
    };
}

}  // namespace sluice::cuda
