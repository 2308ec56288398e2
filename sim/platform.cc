#include "sim/platform.h"

#include <fmt/format.h>

#include <csignal>
#include <string>

// clang-format off: version.h does not include what it needs
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <simgrid/version.h>
// clang-format on

#include "base/error.h"

namespace sluice {
namespace {

namespace s4u = simgrid::s4u;

// Settings that make SimGrid's model the one that docs/simulator.md describes; each default that they replace is a
// trap.
void configure() {
    xbt_log_control_set("root.threshold:critical");       // nothing on the user's terminal
    s4u::Engine::set_config("network/model:CM02");        // the default scales latencies by 13 and rates by 0.97
    s4u::Engine::set_config("network/crosstraffic:0");    // the default adds 5% of every flow to the reverse path
    s4u::Engine::set_config("network/TCP-gamma:1e18");    // the default caps a flow at 4 MiB / (2 x latency)
    s4u::Engine::set_config("network/loopback-bw:1e18");  // never crossed; made explicit all the same
    s4u::Engine::set_config("network/loopback-lat:0");
    s4u::Engine::set_config("debug/clean-atexit:no");  // the process ends with _exit
}

// SimGrid's own handlers print and then call exit(), which would run the parent's atexit handlers in the child.
void restore_signal_handlers() {
    for (const int signal : {SIGINT, SIGSEGV, SIGBUS}) std::signal(signal, SIG_DFL);
}

// A token travels with its activity as the user's pointer. 0 is reserved.
void* to_pointer(std::uint32_t token) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(token) + 1); }
std::uint32_t to_token(const void* pointer) {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pointer) - 1);
}

}  // namespace

struct Platform::Impl {
    s4u::Engine* engine = nullptr;  // never deleted: the process ends with the simulation
    std::vector<s4u::Host*> hosts;  // by endpoint; null where no route ends
    std::vector<s4u::Link*> links;  // by link; null where no route crosses
    std::vector<BytesPerSecond> rates;
    std::function<void(std::uint32_t)> ended;
    std::uint64_t activities = 0;
    s4u::ActivityPtr last_ended;

    // SimGrid does not keep what it runs alive, so every activity holds one reference to itself until it has ended, and
    // then through SimGrid's last look at it, which comes right after the callback.
    static void start(s4u::Activity& activity, std::uint32_t token) {
        activity.set_data(to_pointer(token));
        activity.add_ref();
        activity.vetoable_start();
    }

    void on_end(const s4u::Activity& activity) {
        last_ended = s4u::ActivityPtr(const_cast<s4u::Activity*>(&activity), false);
        ++activities;
        ended(to_token(activity.get_data<void>()));
    }

    s4u::Link* link(s4u::NetZone& zone, const Topology& topology, LinkId id) {
        s4u::Link*& made = links[static_cast<std::size_t>(id)];
        if (made == nullptr) {
            const Link& link = topology.links()[static_cast<std::size_t>(id)];
            SLUICE_CHECK(link.rate.value > 0, "a link without a rate: " + link.name);
            made = zone.create_link(link.name, link.rate.value);
            rates[static_cast<std::size_t>(id)] = link.rate;
        }
        return made;
    }
};

namespace {

Path path_between(const Topology& topology, Endpoint from, Endpoint to) {
    const auto source = static_cast<std::size_t>(from), target = static_cast<std::size_t>(to);
    const std::size_t ranks = topology.ranks();
    if (source >= 2 * ranks) return topology.copy_in(from, id_at<Rank>(target));
    if (target >= 2 * ranks) return topology.copy_out(id_at<Rank>(source), to);
    if (source >= ranks) return topology.collective(id_at<Rank>(source - ranks), id_at<Rank>(target));
    return topology.transfer(id_at<Rank>(source), id_at<Rank>(target));
}

}  // namespace

Platform::Platform(const Topology& topology, const Routes& routes, const std::vector<double>& speeds,
                   std::function<void(std::uint32_t)> ended)
    : impl_(std::make_unique<Impl>()) {
    SLUICE_CHECK(!s4u::Engine::is_initialized(), "SimGrid allows one simulation per process");
    // An argument vector of our own: SimGrid must not read the user's.
    static char name[] = "sluice";
    static char* arguments[] = {name, nullptr};
    int count = 1;
    xbt_log_control_set("root.threshold:critical");
    impl_->engine = new s4u::Engine(&count, arguments);
    configure();
    restore_signal_handlers();
    impl_->ended = std::move(ended);
    impl_->hosts.resize(topology.endpoints());
    impl_->links.resize(topology.links().size());
    impl_->rates.resize(topology.links().size());

    s4u::NetZone* zone = s4u::create_full_zone("cluster");
    for (std::size_t e = 0; e < topology.endpoints(); ++e) {
        impl_->hosts[e] = zone->create_host(topology.name(id_at<Endpoint>(e)),
                                            e < topology.ranks() ? speeds : std::vector<double>{1});
    }
    for (const auto& [from, to] : routes) {
        std::vector<s4u::LinkInRoute> crossed;
        for (const LinkId id : path_between(topology, from, to)) {
            crossed.emplace_back(impl_->link(*zone, topology, id));
        }
        zone->add_route(impl_->hosts[static_cast<std::size_t>(from)]->get_netpoint(),
                        impl_->hosts[static_cast<std::size_t>(to)]->get_netpoint(), nullptr, nullptr, crossed, false);
    }
    zone->seal();
    s4u::Activity::on_completion_cb([impl = impl_.get()](const s4u::Activity& activity) { impl->on_end(activity); });
}

Platform::~Platform() = default;

void Platform::start_compute(Rank rank, Seconds alone, std::uint32_t token) {
    const s4u::ExecPtr exec = s4u::Exec::init();
    exec->set_flops_amount(alone.value)->set_host(impl_->hosts[index(rank)]);
    Impl::start(*exec, token);
}

// sendto_init(from, to) leaves the flow waiting for its size; it starts with the last call and no earlier.
void Platform::start_flow(Endpoint from, Endpoint to, Bytes bytes, std::uint32_t token) {
    const s4u::CommPtr comm = s4u::Comm::sendto_init(impl_->hosts[static_cast<std::size_t>(from)],
                                                     impl_->hosts[static_cast<std::size_t>(to)]);
    comm->set_payload_size(static_cast<std::uint64_t>(bytes.value));
    Impl::start(*comm, token);
}

void Platform::after(Seconds delay, std::function<void()> then) {
    simgrid::kernel::timer::Timer::set(s4u::Engine::get_clock() + delay.value, std::move(then));
}

void Platform::set_speed(Rank rank, std::size_t speed) {
    s4u::Host* host = impl_->hosts[index(rank)];
    if (host->get_pstate() != speed) host->set_pstate(speed);
}

void Platform::set_rate(LinkId link, BytesPerSecond rate) {
    BytesPerSecond& current = impl_->rates[static_cast<std::size_t>(link)];
    if (current == rate) return;
    current = rate;
    impl_->links[static_cast<std::size_t>(link)]->set_bandwidth(rate.value);
}

void Platform::run() { impl_->engine->run(); }

Seconds Platform::now() const { return Seconds{s4u::Engine::get_clock()}; }

std::uint64_t Platform::activities() const { return impl_->activities; }

std::string simgrid_version() { return fmt::format("{}.{}", SIMGRID_VERSION_MAJOR, SIMGRID_VERSION_MINOR); }

}  // namespace sluice
