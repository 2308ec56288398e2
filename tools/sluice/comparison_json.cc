#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/sluice/comparison_report.h"
#include "traces/lane_name.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

const char* wait_name(Wait wait) {
    switch (wait) {
        case Wait::kNone:
            return "end";
        case Wait::kLane:
            return "lane";
        case Wait::kData:
            return "data";
        case Wait::kReuse:
            return "reuse";
        case Wait::kMatch:
            return "match";
    }
    return "";
}

Json pair_json(const TimePair& pair) {
    return {{"predicted_seconds", pair.predicted.value}, {"measured_seconds", pair.measured.value}};
}

Json share_json(const ErrorShare& share) {
    Json waits = Json::object();
    for (const WaitTime& wait : share.waits)
        waits[wait_name(wait.wait)] =
            Json{{"predicted_ns", wait.predicted.value}, {"measured_ns", wait.measured.value}};
    return {{"class", share.op_class},
            {"predicted_ns", share.predicted.value},
            {"measured_ns", share.measured.value},
            {"error_ns", share.error().value},
            {"same_ops_ns", share.same_ops.value},
            {"other_path_ns", share.other_path().value},
            {"waits", std::move(waits)}};
}

Json lane_json(const LanePair& lane) {
    Json json{{"rank", index(lane.lane.rank)}, {"lane", category_of(lane.lane.role)}};
    json["peer"] = lane.lane.peer == kNoRank ? Json(nullptr) : Json(index(lane.lane.peer));
    json.update(pair_json(lane.busy));
    return json;
}

Json class_json(const ClassPair& pair) {
    Json json{
        {"class", pair.op_class}, {"predicted_calls", pair.predicted_calls}, {"measured_calls", pair.measured_calls}};
    json.update(pair_json(pair.busy));
    json["measured_least_seconds"] = pair.measured_least.value;
    json["measured_most_seconds"] = pair.measured_most.value;
    return json;
}

Json numbered_json(const std::vector<NumberedPair>& pairs, const char* name) {
    Json list = Json::array();
    for (const NumberedPair& pair : pairs) {
        Json json;
        json[name] = pair.number < 0 ? Json(nullptr) : Json(pair.number);
        json["compute"] = pair_json(pair.compute);
        json["others"] = pair_json(pair.others);
        list.push_back(std::move(json));
    }
    return list;
}

Json mean_json(const LaneTime& mean, const BubbleShare& bubble) {
    return {{"work_seconds", mean.work.value},
            {"warm_up_seconds", mean.warm_up.value},
            {"bubble_seconds", mean.bubble.value},
            {"exposed_d2h_seconds", mean.exposed_d2h.value},
            {"exposed_h2d_seconds", mean.exposed_h2d.value},
            {"exposed_comm_seconds", mean.exposed_comm.value},
            {"memory_wait_seconds", mean.memory_wait.value},
            {"drain_seconds", mean.drain.value},
            {"bubble_fraction", bubble.of_step},
            {"bubble_over_work", bubble.of_work}};
}

Json pool_json(const PoolPair& pool) {
    return {{pool.host ? "node" : "rank", pool.owner},
            {"predicted_live_bytes", pool.predicted_live.value},
            {"measured_live_bytes", pool.measured_live.value},
            {"predicted_arena_bytes", pool.predicted_arena.value},
            {"measured_arena_bytes", pool.measured_arena.value}};
}

Json op_json(const OpPair& op) {
    Json json{{"op", index(op.op)}, {"rank", index(op.rank)}, {"class", op.op_class}, {"phase", op.phase}};
    for (const auto& [name, number] :
         {std::pair("stage", op.stage), std::pair("layer", op.layer), std::pair("subsequence", op.subsequence)})
        json[name] = number < 0 ? Json(nullptr) : Json(number);
    json.update(pair_json(op.time));
    return json;
}

template <class Range, class ToJson>
Json list_json(const Range& range, const ToJson& to_json) {
    Json list = Json::array();
    for (const auto& item : range) list.push_back(to_json(item));
    return list;
}

Json ids_json(const std::vector<OpId>& ops) {
    return list_json(ops, [](OpId op) { return Json(index(op)); });
}

}  // namespace

std::string comparison_json(const Comparison& c, const Trace& predicted, const Trace& measured) {
    const double relative = c.step.relative_error();
    Json json{{"scenario", measured.provenance.scenario},
              {"schedule_fingerprint", measured.provenance.schedule_fingerprint},
              {"predicted_by", predicted.provenance.producer},
              {"measured_by", measured.provenance.producer},
              {"calibration", predicted.provenance.calibration},
              {"hardware", measured.provenance.hardware}};
    json["step"] = pair_json(c.step);
    json["step"]["error_seconds"] = c.step.error().value;
    json["step"]["relative_error"] = std::isfinite(relative) ? Json(relative) : Json(nullptr);
    json["measured_steps_seconds"] = list_json(c.measured_steps, [](Seconds t) { return Json(t.value); });
    json["median_step"] = c.median_step;
    json["kernels"] = c.kernels;
    json["error_shares"] = list_json(c.error_shares, share_json);
    json["mean_compute_lane"] = Json{{"predicted", mean_json(c.predicted_mean, c.predicted_bubble)},
                                     {"measured", mean_json(c.measured_mean, c.measured_bubble)}};
    json["lanes"] = list_json(c.lanes, lane_json);
    json["classes"] = list_json(c.classes, class_json);
    json["stages"] = numbered_json(c.stages, "stage");
    json["subsequences"] = numbered_json(c.subsequences, "subsequence");
    json["pools"] = list_json(c.pools, pool_json);
    json["worst_ops"] = list_json(c.worst_ops, op_json);
    json["only_predicted"] = ids_json(c.only_predicted);
    json["only_measured"] = ids_json(c.only_measured);
    return json.dump(2);
}

}  // namespace sluice
