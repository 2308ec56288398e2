// Private to the planner: writes the program of one folded rank, op by op, in issue order. fold_forward.cc and
// fold_backward.cc hold the two passes, fold_recompute.cc what the second makes again, fold_ulysses.cc their parts
// where tokens are exchanged for heads, fold_replicas.cc what data-parallel replicas exchange and the optimizer,
// stage_emitter.cc what they share.
#pragma once

#include <optional>
#include <vector>

#include "models/activation_inventory.h"
#include "planner/folded_step.h"

namespace sluice {

// A value on its way: who made it last, and how the next op reads it.
struct Value {
    std::vector<OpId> made_by;
    std::vector<Access> reads;
};

struct FoldedGroups {
    std::vector<GroupId> sequence_parallel;  // by stage
    GroupId everyone{};
    GroupId tied_ends{};                 // first and last stage, where both hold the embedding
    std::vector<GroupId> data_parallel;  // by stage, where there are replicas
};

inline Access read(BufferId buffer, std::uint32_t first = 0, std::uint32_t last = 0) {
    return {buffer, first, last, AccessMode::kRead};
}
inline Access write(BufferId buffer, std::uint32_t first = 0, std::uint32_t last = 0) {
    return {buffer, first, last, AccessMode::kWrite};
}
// Sizes of the blocks of what Ulysses exchanges for one subsequence (fold_ulysses.cc).
std::vector<Bytes> exchange_blocks(const Scenario&, Subsequence, Phase);
std::vector<Access> join(std::vector<Access> accesses, const std::vector<Access>& more);
void append(KernelChain& chain, const KernelChain& more, std::uint32_t times);  // each kernel `times` as often
KernelChain repeated(std::initializer_list<const KernelChain*> parts, std::uint32_t times);  // likewise, a new one

class StageEmitter {
public:
    StageEmitter(const Scenario&, const std::vector<Subsequence>&, const std::vector<StagePlan>&, const FoldedGroups&,
                 std::size_t stage, FoldedStep& out);

    void forward(std::int32_t sequence);
    void backward(std::int32_t sequence);
    void optimizer();

private:
    // Rows are what units are made per: a layer, or with stage granularity all layers of the stage at once.
    struct Row {
        std::int32_t layer = -1;   // global index, -1 for a whole stage
        std::uint32_t layers = 1;  // how many it stands for
        std::size_t part = 0;      // of parts_, and which row it is
        BufferId kv{}, dkv{};      // of the sequence at hand
        OpId attention{};          // the last one
        // -- where K and V are on the host between their uses (fold_kv.cc)
        struct Fetched {
            BufferId kv = kNoBuffer, dkv = kNoBuffer;
            std::vector<OpId> ready;
        };
        bool streams_kv = false;
        std::vector<Bytes> kv_blocks, dkv_blocks;
        BufferId kv_host{}, dkv_host{};
        OpId kv_out = kNoOp, dkv_out = kNoOp;  // the last copies out
        Fetched fetched;                       // for the next visit
        std::vector<OpId> kv_ready;            // what attention waits for
        std::vector<BufferId> units;           // by subsequence
    };
    // Where a row's saved tensors of one subsequence are: all in `unit`, or the cheap ones in a buffer of their own, and
    // with inventory lean those that are transient, too. Buffers of their own hold one layer's at a time.
    struct Saved {
        BufferId unit{};
        BufferId cheap = kNoBuffer, transient = kNoBuffer;
        std::uint32_t recomputed = 0;  // layers of the row
        bool whole_layers = false;     // of these all but the block input is in `cheap`
        bool remakes() const { return recomputed > 0 || transient != kNoBuffer; }
        BufferId query() const { return recomputed > 0 ? cheap : unit; }
        BufferId norms() const { return transient != kNoBuffer ? transient : query(); }  // and their statistics
        // Attention's results and the middle residual, of a layer.
        BufferId checkpoints() const { return whole_layers ? cheap : unit; }
        std::vector<Access> temporaries(AccessMode) const;
        std::vector<Access> all(AccessMode) const;
        // What the MLP's backward accesses: it makes the activation's output again if that is transient.
        std::vector<Access> for_mlp_backward() const;
    };
    // Parameters whose gradients have a buffer of their own, that replicas gather (ZeRO 3) and whose gradients they
    // reduce (ZeRO 2) at once: those of a row, of the embedding, of the head. A row of several layers is `calls` times
    // one layer, through a buffer of one layer.
    struct Part {
        std::int64_t weights = 0, gradients = 0;  // parameters of one call
        std::uint32_t calls = 1;
        BufferId accumulator = kNoBuffer;  // lives from the part's first gradient of the step: what backward has freed
                                           // by then makes room for it
        bool begun = false;
        BufferId transient = kNoBuffer;  // gradients of the subsequence at hand
    };
    // A reduction that is listed when there is compute to run beside it.
    struct Reduction {
        std::size_t part = 0;
        BufferId transient{};
        OpId made_by{};
        Tag tag;
    };
    struct Gathered {
        std::size_t part = 0;
        BufferId buffer{};
        OpId made_by{};
    };
    // Buffers that live for one subsequence in one direction.
    struct Scratch {
        BufferId comm =
            kNoBuffer;      // block 0: gathered; 1: partial sums, or in backward gathered inputs; 2: partial sums
        BufferId exchange = kNoBuffer;  // Ulysses: exchange_blocks()
        BufferId stream{};  // the rank's shard: block 0 the residual stream, block 1 (backward) the reduced gradient
        BufferId workspace{};
    };

    // -- building blocks (stage_emitter.cc)
    BufferId add_buffer(BufferKind, Bytes, bool persistent = false, std::vector<Bytes> blocks = {});
    BufferId add_activation(Bytes, std::size_t i, const Row&, UnitPart);
    OpId emit(Function, Lane, Work, std::vector<OpId> after, std::vector<Access> accesses);
    OpId compute(Function, KernelChain, std::vector<OpId> after, std::vector<Access> accesses);
    // Gathers `value` into a block of `comm`. Without sequence parallelism there is nothing to do and `value` is
    // returned.
    Value all_gather(Function, const Value&, BufferId comm, std::uint32_t block, Bytes bytes, std::uint32_t calls = 1);
    // The norm's output that `saved` has, made by `after`, of all tokens: gathered into a block of `comm`, or in place
    // where all rows are saved.
    Value gather_normed(Function, std::vector<OpId> after, const Saved&, BufferId comm, std::uint32_t block, Bytes);
    // Where an op writes the partial sums that reduce_scatter() then turns into `target`.
    Access partial_sums(BufferId comm, std::uint32_t block, Access target) const;
    OpId reduce_scatter(Function, OpId producer, BufferId comm, std::uint32_t block, Access target, Bytes bytes,
                        std::uint32_t calls = 1);
    // From rows of the rank's tokens to rows of all tokens and the rank's heads, or back.
    OpId all_to_all(Function, Bytes bytes, std::vector<OpId> after, std::vector<Access> accesses,
                    std::uint32_t calls = 1);
    OpId receive(Rank from, BufferId into, Bytes bytes);
    OpId send(Rank to, OpId producer, BufferId from, Bytes bytes);
    // The first op of the step that touches a part's gradients writes them, the others accumulate.
    Access gradient_access(std::size_t part);
    std::uint32_t recomputed_layers(const Row&, std::size_t i) const;
    Saved saved(std::size_t i, const Row&, Phase phase);
    Unit& unit_at(std::size_t i, const Row&);
    std::size_t embedding_part() const { return rows_.size(); }
    std::size_t head_part() const { return rows_.size() + 1; }
    bool first() const { return stage_ == 0; }
    bool last() const { return stage_ + 1 == static_cast<std::size_t>(scenario_.policy.pp); }
    bool shards() const { return scenario_.policy.sp > 1; }
    Rank next() const { return id_at<Rank>(stage_ + 1); }
    Rank previous() const { return id_at<Rank>(stage_ - 1); }
    void begin_sequence(std::int32_t sequence);
    void add_parameters();
    Scratch scratch(std::size_t i, Phase phase, bool holds_loss);

    bool layer_major() const { return scenario_.policy.order == TraversalOrder::kLayerMajor; }
    std::size_t slot(std::size_t i, const Row& row) const { return slot_of(scenario_, static_cast<std::int64_t>(row.part), i); }

    // -- K and V on the host (fold_kv.cc): do nothing for rows that keep theirs
    BufferId add_blocks(BufferKind, std::vector<Bytes> sizes, Space);
    void fetch_kv(Row&, std::size_t i);
    void fetch_next_kv(const Row&, std::size_t i);
    void open_kv(Row&, std::size_t i);
    void close_kv(Row&, std::size_t i);

    // -- layer-major order (fold_by_layer.cc)
    void forward_by_layer();
    void backward_by_layer();

    // -- between replicas (fold_replicas.cc); all of these do nothing where nothing is shared out
    bool reduces_at_once() const { return scenario_.shares(ZeroStage::kGradients); }
    void use_weights(std::size_t part, std::size_t i);  // from here on `weights_` are the part's
    std::optional<std::size_t> part_after(std::size_t part, std::size_t i) const;  // whose weights are needed next
    Gathered gather_weights(std::size_t part);
    // All that subsequence i adds to them is listed. Layer-major, they wait for the part's last subsequence.
    void reduce_gradients(std::size_t part, std::size_t i);
    bool part_ends(std::size_t i) const;  // the next op needs other weights than the part's
    Bytes transient_gradient_bytes(const Part&) const;
    // Lists what waits for compute to run beside: reductions of what came before, the gather of what comes next. Called
    // where a row has gathered its input.
    void beside_compute();
    Access transient_gradient(std::size_t part);
    OpId exchange(Function, CollectiveKind, GroupId, Bytes, std::uint32_t calls, std::vector<OpId> after,
                  std::vector<Access>);
    Access accumulator(std::size_t part);
    void list_reductions();
    OpId reduce_over_replicas(OpId ready, const std::vector<Access>& gradients);
    OpId reduce_over_shards(OpId ready, const std::vector<Access>& gradients);

    // -- attention between all-to-alls (fold_ulysses.cc)
    OpId exchanged_attention(std::size_t i, Row&, const Saved&, OpId norm1, const Scratch&);
    Value exchanged_forward_stage(std::size_t i, Row&, const Value& input, const Scratch&);
    Value exchanged_backward_layer(std::size_t i, Row&, const Value& gradient, const Scratch&,
                                   std::optional<Access> output);
    Value exchanged_backward_stage(std::size_t i, Row&, const Value& gradient, const Scratch&,
                                   std::optional<Access> output);

    // -- forward of one subsequence (fold_forward.cc)
    Value stage_input(std::size_t i, Scratch&);
    void forward_subsequence(std::size_t i);
    Value forward_layer(std::size_t i, Row&, Value input, const Scratch&);
    // From the first norm's output to what attention adds to the stream. Returns the op that leaves it there.
    OpId attention_block(std::size_t i, Row&, const Saved&, OpId norm1, const Scratch&);
    Value forward_stage(std::size_t i, Row&, Value input, const Scratch&);
    void last_residual(std::size_t i, const Value& stream);
    void loss(std::size_t i, Value stream, const Scratch&);

    // -- what backward makes again first (fold_recompute.cc)
    OpId recompute(Function, KernelChain, std::vector<OpId> after, std::vector<Access> accesses);
    // A norm's output of all tokens, for backward. What is saved whole is there; what was dropped is gathered again.
    Value gather_again(Function norm, std::vector<OpId> after, const Saved&, const Scratch&, Bytes);
    // The norms of a row, as far as they follow from its unit.
    OpId remake_norms(std::size_t i, const Row&, const Saved&);
    // The middle residual and what follows from it, from attention's reduced sums.
    OpId remake_norm2(std::size_t i, const Row&, const Saved&, std::vector<OpId> sums, const Scratch&);
    // Of a layer, until the MLP can go backward: returns norm2's output of all tokens. The block of gathered inputs is
    // free behind `block_is_free`.
    Value remake_layer(std::size_t i, const Row&, const Saved&, const Scratch&, std::vector<OpId> block_is_free);
    // From the first norm's output to the second's of a layer that keeps its block input alone.
    Value remake_checkpoints(std::size_t i, const Row&, const Saved&, const Scratch&, std::vector<OpId> block_is_free);
    // Of all layers at once: returns both inputs.
    Value remake_stage(std::size_t i, const Row&, const Saved&, const Scratch&);
    // Ulysses, of a layer or a stage. Returns the op that brings attention's output to the rank's rows, if one does.
    OpId exchanged_remake(std::size_t i, const Row&, const Saved&, const Scratch&);

    // -- backward of one subsequence (fold_backward.cc)
    void backward_subsequence(std::size_t i);
    Value backward_layer(std::size_t i, Row&, Value gradient, const Scratch&, std::optional<Access> output);
    Value backward_stage(std::size_t i, Row&, Value gradient, const Scratch&, std::optional<Access> output);
    std::vector<Access> attention_gradients(std::size_t i, const Row&, std::uint32_t block) const;
    void embedding_gradient(std::size_t i, const Value& gradient, const Scratch&);
    void mark_row(std::size_t i, const Row&, Phase phase, OpId first_op, OpId last_op);
    Unit* unit_before(std::size_t i, const Row&);

    const Scenario& scenario_;
    const std::vector<Subsequence>& subsequences_;
    const StagePlan& plan_;
    const FoldedGroups& groups_;
    std::size_t stage_;
    FoldedStep& out_;
    Rank rank_;
    Tag tag_;

    // whole step
    BufferId weights_{};      // that ops read: the rank's own, or (ZeRO 3) the part gathered last
    BufferId own_weights_{};  // persistent
    BufferId optimizer_{};
    std::int64_t parameters_ = 0;
    std::int64_t stepped_ = 0, replicated_ = 0;  // whose optimizer state the rank has; of these, on several shards
    std::vector<Part> parts_;   // of rows, embedding, head
    std::vector<Reduction> reductions_;
    std::optional<Gathered> ahead_;
    std::optional<std::size_t> gather_next_, gathered_part_;
    OpId weights_by_ = kNoOp;  // gather that the next op to read `weights_` waits for
    OpId last_op_ = kNoOp, last_compute_ = kNoOp, last_reduction_ = kNoOp;

    // the sequence at hand
    std::vector<Row> rows_;
    std::vector<std::size_t> unit_of_;  // subsequence x rows + row -> index into out_.units
    std::vector<BufferId> inputs_, outputs_, loss_gradients_;
    std::vector<OpId> received_, produced_;  // op that filled inputs_, outputs_
    std::vector<OpId> loss_gradient_by_;
};

}  // namespace sluice
