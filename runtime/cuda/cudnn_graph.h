// Operation graphs of cuDNN's backend API written as formulas, and their execution plans. For attention*.cc alone.
//
//   OperationGraph g("example");
//   const TensorId a = g.memory(TensorId{1}, "a", TensorType::kBf16, layout), b = ..., c = ...;
//   g.multiply(g.product(a, b), g.constant(2.0F), c);      // c = 2 (a b): the last argument says where a result goes
//   ExecutionPlan plan(handle, std::move(g));
//   plan.run(handle, {{{a, pa}, {b, pb}, {c, pc}}}, workspace);
//
// Every failure is an EnvironmentError that names the graph, the descriptor with its extents, the attribute by its
// number in cudnn_graph.h of the library, and the library's last message.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

struct DestroyBackendDescriptor {
    void operator()(void* descriptor) const;
};
using BackendDescriptor = std::unique_ptr<void, DestroyBackendDescriptor>;

// The library, on the device that is current when this is made. Throws EnvironmentError when the version loaded is not
// the one built with.
class CudnnHandle {
public:
    CudnnHandle();
    ~CudnnHandle();
    CudnnHandle(const CudnnHandle&) = delete;
    CudnnHandle& operator=(const CudnnHandle&) = delete;

    void set_stream(Stream);  // of what runs from now on
    void* get() const { return handle_; }

private:
    void* handle_ = nullptr;
};

enum class TensorType : std::uint8_t { kBf16, kFp32, kInt32, kBoolean };

// [batch, head, row, column], strides in elements. A head may serve several of another tensor's (grouped queries).
struct TensorLayout {
    std::array<std::int64_t, 4> extents{}, strides{};
};
TensorLayout packed(const std::array<std::int64_t, 4>& extents);
TensorLayout transposed(TensorLayout);  // rows and columns change places

enum class TensorId : std::int64_t {};

class OperationGraph {
public:
    explicit OperationGraph(std::string name);

    // Device memory that every run names; begins at a multiple of 16 bytes. 0 < id < kFirstOwnId.
    TensorId memory(TensorId id, std::string_view name, TensorType, const TensorLayout&);
    TensorId constant(float);
    TensorId constant(std::int32_t);

    // Where the result of an operation goes: into an intermediate of this type, which exists inside of the kernel
    // only, or into a tensor in memory.
    struct Result {
        Result(TensorType t = TensorType::kFp32) : type(t) {}  // NOLINT(google-explicit-constructor)
        Result(TensorId id) : into(id) {}                      // NOLINT(google-explicit-constructor)
        TensorType type = TensorType::kFp32;
        std::optional<TensorId> into;
    };

    TensorId product(TensorId a, TensorId b, Result = {});  // of matrices, head by head
    TensorId transpose(TensorId x);                         // bf16, as products take their operands

    // Element by element; b is a constant, or is repeated along an extent of 1.
    TensorId add(TensorId a, TensorId b, Result = {});
    TensorId subtract(TensorId a, TensorId b, Result = {});
    TensorId multiply(TensorId a, TensorId b, Result = {});
    TensorId divide(TensorId a, TensorId b, Result = {});
    TensorId exp(TensorId x);
    TensorId log(TensorId x);
    TensorId copy(TensorId x, Result);  // converts

    // Integers of x's extents.
    TensorId row_index(TensorId x);
    TensorId column_index(TensorId x);
    TensorId add_integer(TensorId a, TensorId b);
    TensorId subtract_integer(TensorId a, TensorId b);
    TensorId at_least(TensorId a, TensorId b);  // a >= b, boolean
    TensorId select(TensorId condition, TensorId if_true, TensorId if_false);

    // Over the columns of a row.
    TensorId row_maximum(TensorId x);
    TensorId row_sum(TensorId x);
    // Over the heads of x that share one of `result`.
    void group_sum(TensorId x, TensorId result);

private:
    friend class ExecutionPlan;

    static constexpr std::int64_t kFirstOwnId = 100;
    struct Tensor {
        TensorId id{};
        std::string name;
        TensorLayout layout;
        std::variant<std::monostate, float, std::int32_t> constant;
        BackendDescriptor descriptor;
    };
    struct TensorKind {
        TensorType type{};
        bool in_memory = false;
    };

    Tensor& create(TensorId id, std::string_view name, TensorKind, const TensorLayout&);
    TensorId create_constant(std::variant<std::monostate, float, std::int32_t> value, TensorType);
    TensorId result(const Result&, std::string_view name, const TensorLayout&);
    const Tensor& tensor(TensorId) const;
    void* descriptor(TensorId id) const { return tensor(id).descriptor.get(); }
    std::string about(std::string_view operation, TensorId result) const;

    struct Pointwise {
        int mode = 0;  // cudnnPointwiseMode_t
        std::string_view name;
        TensorType computed_in = TensorType::kFp32;
        std::optional<std::int64_t> axis;
    };
    TensorId pointwise(const Pointwise&, std::initializer_list<TensorId> operands, const Result&);
    TensorId reduce(int reduction, std::string_view name, TensorId x, const TensorLayout&, const Result&);

    std::string name_;
    std::deque<Tensor> tensors_;
    std::vector<BackendDescriptor> parameters_, operations_;
    std::int64_t next_id_ = kFirstOwnId;
};

struct TensorMemory {
    TensorId tensor{};
    const void* memory = nullptr;
};

// The library's first proposal for a graph that it can build.
class ExecutionPlan {
public:
    // Throws InputError when no engine of the library takes the graph.
    ExecutionPlan(const CudnnHandle&, OperationGraph);

    std::int64_t workspace_bytes() const { return workspace_bytes_; }
    std::string description() const;  // the graph's name, and the engine as the library numbers them
    // `memory` is all of the graph's. Allocates nothing on the device.
    void run(const CudnnHandle&, std::span<const TensorMemory> memory, void* workspace) const;

private:
    OperationGraph graph_;  // its constants are read at every run
    BackendDescriptor whole_, plan_;
    std::int64_t engine_ = -1, workspace_bytes_ = 0;
};

}  // namespace sluice::cuda
