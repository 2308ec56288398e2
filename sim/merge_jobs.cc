#include "sim/merge_jobs.h"

#include "base/error.h"
#include "schedule/op_graph.h"

namespace sluice {
namespace {

class Merging {
public:
    Merging(std::span<const Job> jobs, const Cluster& cluster) {
        const auto per_node = static_cast<std::size_t>(cluster.gpus_per_node);
        Schedule& schedule = merged_.schedule;
        schedule.hosts.assign(static_cast<std::size_t>(cluster.nodes), {cluster.host.usable()});
        for (std::size_t r = 0; r < static_cast<std::size_t>(cluster.gpus()); ++r)
            schedule.ranks.push_back({id_at<HostId>(r / per_node), cluster.gpu.usable()});
        for (const Job& job : jobs) {
            SLUICE_CHECK(job.gpus.size() == job.schedule->ranks.size(), "a GPU for every rank");
            group_base_.push_back(schedule.groups.size());
            for (const Group& group : job.schedule->groups) {
                schedule.groups.push_back({id_at<GroupId>(schedule.groups.size()), {}});
                for (const Rank member : group.members)
                    schedule.groups.back().members.push_back(job.gpus[index(member)]);
            }
        }
    }

    void add(const Job& job, std::uint32_t steps) {
        const OpGraph graph(*job.schedule);
        const std::size_t which = merged_.jobs.size();
        merged_.jobs.push_back({merged_.schedule.ops.size(), job.schedule->ops.size(), steps});
        for (std::uint32_t step = 0; step < steps; ++step) {
            for (const Op& op : job.schedule->ops) add_op(op, job, which, step, graph);
            end_step(job, which, step, graph);
        }
    }

    MergedJobs take() && { return std::move(merged_); }

private:
    void add_op(const Op& of_job, const Job& job, std::size_t which, std::uint32_t step, const OpGraph& graph) {
        const MergedJob& place = merged_.jobs[which];
        Op op;
        op.id = id_at<OpId>(merged_.schedule.ops.size());
        op.rank = job.gpus[index(of_job.rank)];
        op.lane = of_job.lane;
        if (op.lane.peer != kNoRank) op.lane.peer = job.gpus[index(op.lane.peer)];
        op.work = of_job.work;
        if (auto* collective = std::get_if<Collective>(&op.work))
            collective->group = id_at<GroupId>(group_base_[which] + index(collective->group));
        for (const OpId after : of_job.after) op.after.push_back(id_at<OpId>(place.begin_of(step) + index(after)));
        if (step > 0 && graph.predecessor_counts()[index(of_job.id)] == 0)
            op.after.push_back(id_at<OpId>(place.end_of(step - 1)));
        op.tag = of_job.tag;
        merged_.schedule.ops.push_back(std::move(op));
    }

    // An op in the compute lane of the job's first rank that takes no time.
    void end_step(const Job& job, std::size_t which, std::uint32_t step, const OpGraph& graph) {
        Op op;
        op.id = id_at<OpId>(merged_.schedule.ops.size());
        op.rank = job.gpus.front();
        op.work = Compute{};
        for (const Op& of_job : job.schedule->ops)
            if (graph.successors(of_job.id).empty())
                op.after.push_back(id_at<OpId>(merged_.jobs[which].begin_of(step) + index(of_job.id)));
        merged_.schedule.ops.push_back(std::move(op));
    }

    MergedJobs merged_;
    std::vector<std::size_t> group_base_;  // by job
};

}  // namespace

MergedJobs merge_jobs(std::span<const Job> jobs, std::span<const std::uint32_t> steps, const Cluster& cluster) {
    Merging merging(jobs, cluster);
    for (std::size_t j = 0; j < jobs.size(); ++j) merging.add(jobs[j], steps[j]);
    return std::move(merging).take();
}

}  // namespace sluice
