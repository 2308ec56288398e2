#include "runtime/rendezvous/connection.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace sluice {
namespace {

bool later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Connection::Connection(Descriptor socket) : socket_(std::move(socket)) {}

// A bounded piece at a time, so that one busy process does not keep the others from being heard.
bool Connection::receive() {
    static constexpr std::size_t kMost = std::size_t{1} << 20;
    std::array<std::byte, 65536> piece;
    for (std::size_t total = 0; total < kMost;) {
        const ssize_t got = recv(socket_.get(), piece.data(), piece.size(), 0);
        if (got < 0) return later(errno);
        if (got == 0) return false;
        reader_.add(std::span(piece).first(static_cast<std::size_t>(got)));
        last_heard_ = std::chrono::steady_clock::now();
        total += static_cast<std::size_t>(got);
        if (static_cast<std::size_t>(got) < piece.size()) break;
    }
    return true;
}

void Connection::queue(FrameKind kind, std::span<const std::byte> payload) {
    out_.push_back(frame_bytes(kind, payload));
}

bool Connection::send() {
    while (!out_.empty()) {
        const std::vector<std::byte>& first = out_.front();
        const ssize_t sent = ::send(socket_.get(), first.data() + sent_, first.size() - sent_, MSG_NOSIGNAL);
        if (sent < 0) return later(errno);
        sent_ += static_cast<std::size_t>(sent);
        if (sent_ < first.size()) return true;
        out_.pop_front();
        sent_ = 0;
    }
    return true;
}

void Connection::end_output() { shutdown(socket_.get(), SHUT_WR); }

}  // namespace sluice
