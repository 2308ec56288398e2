#include "example_trace.h"

#include "trace_builder.h"

namespace sluice {
namespace {

void describe(Trace& trace) {
    trace.provenance.producer = "written by hand";
    trace.provenance.scenario = "example";
    trace.provenance.scenario_fingerprint = "00000000000000aa";
    trace.provenance.schedule_fingerprint = "00000000000000bb";
    trace.provenance.calibration = "none";
    trace.provenance.hardware = "two ranks of one node";
    trace.provenance.versions = {{"sluice", "0.1.0"}};
    trace.provenance.omissions = {"launch overheads"};
}

void add_memory(TraceBuilder& t, OpId peak_op) {
    const std::uint32_t device = t.pool(false, 0, 8_GiB), node = t.pool(true, 0, 16_GiB);
    t.live(device, 0, 1 << 20);
    t.live(device, 2, 3 << 20);
    t.live(device, 4, 1 << 20);
    t.live(node, 2, 2 << 20);
    t.live(node, 10, 0);
    t.trace.pools[device].peak_time = Seconds{2};
    t.trace.pools[device].peak_op = peak_op;
    // Looked up before they are added: labels are numbered by first use, and kinds are listed by label.
    const std::uint32_t weights = t.label("weights"), activation = t.label("activation");
    t.trace.pools[device].peak_kinds = {{weights, 1_MiB}, {activation, 2_MiB}};
    t.trace.pools[node].peak_time = Seconds{2};
    t.trace.pools[node].peak_kinds = {{activation, 2_MiB}};
}

}  // namespace

// Two stages, two subsequences; the second stage only sends a gradient back.
//
//   seconds         0    1    2    3    4    5    6    7    8    9    10
//   rank 0 compute  [F0      ]          [F1      ]               [B  ]
//          out                [offload ]
//          in                           [rel]
//          send               [S0 ]               [S1 ]
//          receive                                          [R  ]
//   rank 1 compute                 [F0   ]             [F1B]
//
// F1 takes over the bytes of what F0 saved, so it waits for the offload. R brings the gradient.
Trace example_trace() {
    TraceBuilder t;
    const std::uint32_t compute0 = t.lane(0, LaneRole::kCompute), out0 = t.lane(0, LaneRole::kCopyOut),
                        in0 = t.lane(0, LaneRole::kCopyIn), send0 = t.lane(0, LaneRole::kSend, Rank{1}),
                        receive0 = t.lane(0, LaneRole::kReceive, Rank{1});
    const std::uint32_t compute1 = t.lane(1, LaneRole::kCompute), send1 = t.lane(1, LaneRole::kSend, Rank{0}),
                        receive1 = t.lane(1, LaneRole::kReceive, Rank{0});

    const OpId f0 = t.op(compute0, 0, 2);
    const OpId offload = t.op(out0, 2, 4, data(f0));
    const OpId send_0 = t.op(send0, 2, 3, data(f0));
    const OpId receive_0 = t.op(receive1, 2, 3, match(send_0));
    const OpId f1 = t.op(compute0, 4, 6, reuse(offload));
    const OpId reload = t.op(in0, 4, 5, data(offload));
    const OpId g0 = t.op(compute1, 3, 4.5, data(receive_0));
    const OpId send_1 = t.op(send0, 6, 7, data(f1));
    const OpId receive_1 = t.op(receive1, 6, 7, match(send_1));
    const OpId g1 = t.op(compute1, 7, 8, data(receive_1), "backward");
    const OpId send_g = t.op(send1, 8, 9, data(g1), "backward");
    const OpId receive_g = t.op(receive0, 8, 9, match(send_g), "backward");
    t.op(compute0, 9, 10, data(receive_g), "backward");

    for (const OpId op : {f0, offload, send_0, f1, send_1, reload}) t.event(op).stage = 0;
    for (const OpId op : {g0, g1, receive_0, receive_1, send_g}) t.event(op).stage = 1;
    for (const OpId op : {f0, offload, send_0, receive_0, reload, g0}) t.event(op).subsequence = 0;
    for (const OpId op : {f1, send_1, receive_1, g1, send_g, receive_g}) t.event(op).subsequence = 1;
    for (const OpId op : {offload, reload}) t.event(op).bytes = 2_MiB;
    for (const OpId op : {offload, reload}) t.event(op).flow = 1;
    for (const OpId op : {send_0, receive_0, send_1, receive_1, send_g, receive_g}) t.event(op).bytes = 1_MiB;
    t.kernel(f0, "gemm", 0, 1.5, 3);
    t.kernel(f0, "norm", 1.5, 2);
    t.kernel(g1, "gemm", 7, 8);
    add_memory(t, f0);
    describe(t.trace);
    return t.trace;
}

}  // namespace sluice
