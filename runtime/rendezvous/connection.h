// One end of a connection between two processes: frames in and out, without ever waiting.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "runtime/rendezvous/frame.h"
#include "runtime/rendezvous/meeting_socket.h"

namespace sluice {

class Connection {
public:
    explicit Connection(Descriptor socket);

    int descriptor() const { return socket_.get(); }
    bool open() const { return static_cast<bool>(socket_); }
    void close() { socket_ = {}; }

    // Takes what has arrived. False when there will be no more: the other side has closed, or is gone.
    bool receive();
    // The next whole frame. Throws InputError for what is none.
    std::optional<Frame> next() { return reader_.next(); }
    std::chrono::steady_clock::time_point last_heard() const { return last_heard_; }

    void queue(FrameKind kind, std::span<const std::byte> payload = {});
    bool has_output() const { return !out_.empty(); }
    // Sends what it can. False when the other side is gone.
    bool send();
    // Nothing more will be sent: the other side sees an end, and may still write.
    void end_output();

private:
    Descriptor socket_;
    FrameReader reader_;
    std::chrono::steady_clock::time_point last_heard_ = std::chrono::steady_clock::now();
    std::deque<std::vector<std::byte>> out_;
    std::size_t sent_ = 0;  // of the first of out_
};

}  // namespace sluice
