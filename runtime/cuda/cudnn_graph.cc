#include "runtime/cuda/cudnn_graph.h"

#include <cudnn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/cuda/attention.h"
#include "runtime/cuda/check.h"

namespace sluice::cuda {
namespace {

constexpr std::int64_t kAlignment = 16;

cudnnDataType_t library_type(TensorType t) {
    switch (t) {
        case TensorType::kBf16:
            return CUDNN_DATA_BFLOAT16;
        case TensorType::kFp32:
            return CUDNN_DATA_FLOAT;
        case TensorType::kInt32:
            return CUDNN_DATA_INT32;
        case TensorType::kBoolean:
            return CUDNN_DATA_BOOLEAN;
    }
    SLUICE_CHECK(false, "a type of tensor");
}

const char* text(TensorType t) {
    switch (t) {
        case TensorType::kBf16:
            return "bf16";
        case TensorType::kFp32:
            return "fp32";
        case TensorType::kInt32:
            return "int32";
        case TensorType::kBoolean:
            return "boolean";
    }
    return "?";
}

std::string text(const TensorLayout& l) {
    return fmt::format("[{}] strides [{}]", fmt::join(l.extents, ", "), fmt::join(l.strides, ", "));
}

BackendDescriptor create_descriptor(cudnnBackendDescriptorType_t type, const std::string& about) {
    cudnnBackendDescriptor_t created = nullptr;
    const cudnnStatus_t status = cudnnBackendCreateDescriptor(type, &created);
    if (status != CUDNN_STATUS_SUCCESS)
        check_cudnn(status, fmt::format("{}: cudnnBackendCreateDescriptor of type {}", about, static_cast<int>(type)));
    return BackendDescriptor(created);
}

void set(const BackendDescriptor& d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         std::int64_t count, const void* values, const std::string& about) {
    const cudnnStatus_t status = cudnnBackendSetAttribute(d.get(), name, type, count, values);
    if (status != CUDNN_STATUS_SUCCESS)
        check_cudnn(status, fmt::format("{}: cudnnBackendSetAttribute {}", about, static_cast<int>(name)));
}

void set_descriptor(const BackendDescriptor& d, cudnnBackendAttributeName_t name, void* value,
                    const std::string& about) {
    set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value, about);
}

void finalize(const BackendDescriptor& d, const std::string& about) {
    const cudnnStatus_t status = cudnnBackendFinalize(d.get());
    if (status != CUDNN_STATUS_SUCCESS) check_cudnn(status, about + ": cudnnBackendFinalize");
}

}  // namespace

void DestroyBackendDescriptor::operator()(void* descriptor) const { cudnnBackendDestroyDescriptor(descriptor); }

TensorLayout packed(const std::array<std::int64_t, 4>& e) { return {e, {e[1] * e[2] * e[3], e[2] * e[3], e[3], 1}}; }

TensorLayout transposed(TensorLayout l) {
    std::swap(l.extents[2], l.extents[3]);
    std::swap(l.strides[2], l.strides[3]);
    return l;
}

std::string cudnn_description() {
    const auto version = [](std::size_t v) { return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100); };
    const std::size_t loaded = cudnnGetVersion();
    if (loaded != CUDNN_VERSION)
        throw EnvironmentError(
            fmt::format("cuDNN {} is loaded, but Sluice was built with {}; put the folder of the right "
                        "libcudnn.so.9 first in LD_LIBRARY_PATH",
                        version(loaded), version(CUDNN_VERSION)));
    return "cuDNN " + version(loaded);
}

CudnnHandle::CudnnHandle() {
    cudnn_description();  // throws for another version than ours
    cudnnHandle_t created = nullptr;
    check_cudnn(cudnnCreate(&created), "cudnnCreate");
    handle_ = created;
}
CudnnHandle::~CudnnHandle() { cudnnDestroy(static_cast<cudnnHandle_t>(handle_)); }

void CudnnHandle::set_stream(Stream stream) {
    check_cudnn(cudnnSetStream(static_cast<cudnnHandle_t>(handle_), stream), "cudnnSetStream");
}

OperationGraph::OperationGraph(std::string name) : name_(std::move(name)) {}

OperationGraph::Tensor& OperationGraph::create(TensorId id, std::string_view name, TensorKind kind,
                                               const TensorLayout& layout) {
    const std::string about = fmt::format("{}: tensor {} '{}', {} {}{}", name_, static_cast<std::int64_t>(id), name,
                                          text(kind.type), text(layout), kind.in_memory ? "" : ", intermediate");
    Tensor& t = tensors_.emplace_back(
        Tensor{id, std::string(name), layout, {}, create_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, about)});
    const cudnnDataType_t type = library_type(kind.type);
    const bool is_virtual = !kind.in_memory;
    set(t.descriptor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type, about);
    set(t.descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, layout.extents.data(), about);
    set(t.descriptor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, layout.strides.data(), about);
    set(t.descriptor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id, about);
    set(t.descriptor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &kAlignment, about);
    if (is_virtual) set(t.descriptor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual, about);
    return t;
}

TensorId OperationGraph::memory(TensorId id, std::string_view name, TensorType type, const TensorLayout& layout) {
    SLUICE_CHECK(static_cast<std::int64_t>(id) > 0 && static_cast<std::int64_t>(id) < kFirstOwnId, "ids of memory");
    finalize(create(id, name, {type, true}, layout).descriptor, fmt::format("{}: tensor '{}'", name_, name));
    return id;
}

TensorId OperationGraph::create_constant(std::variant<std::monostate, float, std::int32_t> value, TensorType type) {
    const TensorId id{next_id_++};
    Tensor& t = create(id, "constant", {type, true}, packed({1, 1, 1, 1}));
    t.constant = value;
    const bool by_value = true;
    set(t.descriptor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value, name_ + ": a constant");
    finalize(t.descriptor, name_ + ": a constant");
    return id;
}
TensorId OperationGraph::constant(float value) { return create_constant(value, TensorType::kFp32); }
TensorId OperationGraph::constant(std::int32_t value) { return create_constant(value, TensorType::kInt32); }

const OperationGraph::Tensor& OperationGraph::tensor(TensorId id) const {
    const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const Tensor& t) { return t.id == id; });
    SLUICE_CHECK(found != tensors_.end(), "a tensor belongs to the graph that uses it");
    return *found;
}

TensorId OperationGraph::result(const Result& r, std::string_view name, const TensorLayout& layout) {
    if (r.into) {
        SLUICE_CHECK(tensor(*r.into).layout.extents == layout.extents,
                     fmt::format("{}: {} fits its result '{}', {}", name_, name, tensor(*r.into).name, text(layout)));
        return *r.into;
    }
    const TensorId id{next_id_++};
    finalize(create(id, name, {r.type, false}, layout).descriptor, fmt::format("{}: result of {}", name_, name));
    return id;
}

std::string OperationGraph::about(std::string_view operation, TensorId result) const {
    const Tensor& t = tensor(result);
    return fmt::format("{}: operation {} '{}' to tensor {} '{}' {}", name_, operations_.size(), operation,
                       static_cast<std::int64_t>(result), t.name, text(t.layout));
}

TensorId OperationGraph::product(TensorId a, TensorId b, Result r) {
    const auto &left = tensor(a).layout.extents, &right = tensor(b).layout.extents;
    SLUICE_CHECK(left[3] == right[2] && left[1] % right[1] == 0,
                 fmt::format("{}: factors agree: '{}' and '{}'", name_, tensor(a).name, tensor(b).name));
    const TensorId c = result(r, "product", packed({left[0], left[1], left[2], right[3]}));
    const std::string what = about("product", c);
    const cudnnDataType_t fp32 = CUDNN_DATA_FLOAT;
    BackendDescriptor parameters = create_descriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR, what);
    set(parameters, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &fp32, what);
    finalize(parameters, what);
    BackendDescriptor op = create_descriptor(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, what);
    set_descriptor(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, descriptor(a), what);
    set_descriptor(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, descriptor(b), what);
    set_descriptor(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, descriptor(c), what);
    set_descriptor(op, CUDNN_ATTR_OPERATION_MATMUL_DESC, parameters.get(), what);
    finalize(op, what);
    parameters_.push_back(std::move(parameters));
    operations_.push_back(std::move(op));
    return c;
}

TensorId OperationGraph::transpose(TensorId x) {
    const TensorId y = result(TensorType::kBf16, "transpose", transposed(tensor(x).layout));
    const std::string what = about("transpose", y);
    BackendDescriptor op = create_descriptor(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, what);
    set_descriptor(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, descriptor(x), what);
    set_descriptor(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, descriptor(y), what);
    finalize(op, what);
    operations_.push_back(std::move(op));
    return y;
}

TensorId OperationGraph::pointwise(const Pointwise& p, std::initializer_list<TensorId> operands, const Result& r) {
    const TensorId y = result(r, p.name, packed(tensor(*operands.begin()).layout.extents));
    const std::string what = about(p.name, y);
    const auto mode = static_cast<cudnnPointwiseMode_t>(p.mode);
    const cudnnDataType_t computed_in = library_type(p.computed_in);
    BackendDescriptor parameters = create_descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what);
    set(parameters, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode, what);
    set(parameters, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &computed_in, what);
    if (p.axis) set(parameters, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &*p.axis, what);
    finalize(parameters, what);

    constexpr cudnnBackendAttributeName_t kOperands[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                         CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                         CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
    BackendDescriptor op = create_descriptor(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, what);
    set_descriptor(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parameters.get(), what);
    const auto* attribute = kOperands;
    for (const TensorId operand : operands) set_descriptor(op, *attribute++, descriptor(operand), what);
    set_descriptor(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, descriptor(y), what);
    finalize(op, what);
    parameters_.push_back(std::move(parameters));
    operations_.push_back(std::move(op));
    return y;
}

TensorId OperationGraph::add(TensorId a, TensorId b, Result r) {
    return pointwise({CUDNN_POINTWISE_ADD, "add", TensorType::kFp32, {}}, {a, b}, r);
}
TensorId OperationGraph::subtract(TensorId a, TensorId b, Result r) {
    return pointwise({CUDNN_POINTWISE_SUB, "subtract", TensorType::kFp32, {}}, {a, b}, r);
}
TensorId OperationGraph::multiply(TensorId a, TensorId b, Result r) {
    return pointwise({CUDNN_POINTWISE_MUL, "multiply", TensorType::kFp32, {}}, {a, b}, r);
}
TensorId OperationGraph::divide(TensorId a, TensorId b, Result r) {
    return pointwise({CUDNN_POINTWISE_DIV, "divide", TensorType::kFp32, {}}, {a, b}, r);
}
TensorId OperationGraph::exp(TensorId x) {
    return pointwise({CUDNN_POINTWISE_EXP, "exp", TensorType::kFp32, {}}, {x}, {});
}
TensorId OperationGraph::log(TensorId x) {
    return pointwise({CUDNN_POINTWISE_LOG, "log", TensorType::kFp32, {}}, {x}, {});
}
TensorId OperationGraph::copy(TensorId x, Result r) {
    return pointwise({CUDNN_POINTWISE_IDENTITY, "copy", TensorType::kFp32, {}}, {x}, r);
}
TensorId OperationGraph::row_index(TensorId x) {
    return pointwise({CUDNN_POINTWISE_GEN_INDEX, "row index", TensorType::kInt32, 2}, {x}, TensorType::kInt32);
}
TensorId OperationGraph::column_index(TensorId x) {
    return pointwise({CUDNN_POINTWISE_GEN_INDEX, "column index", TensorType::kInt32, 3}, {x}, TensorType::kInt32);
}
TensorId OperationGraph::add_integer(TensorId a, TensorId b) {
    return pointwise({CUDNN_POINTWISE_ADD, "add", TensorType::kInt32, {}}, {a, b}, TensorType::kInt32);
}
TensorId OperationGraph::subtract_integer(TensorId a, TensorId b) {
    return pointwise({CUDNN_POINTWISE_SUB, "subtract", TensorType::kInt32, {}}, {a, b}, TensorType::kInt32);
}
TensorId OperationGraph::at_least(TensorId a, TensorId b) {
    return pointwise({CUDNN_POINTWISE_CMP_GE, "at least", TensorType::kBoolean, {}}, {a, b}, TensorType::kBoolean);
}
TensorId OperationGraph::select(TensorId condition, TensorId if_true, TensorId if_false) {
    return pointwise({CUDNN_POINTWISE_BINARY_SELECT, "select", TensorType::kFp32, {}}, {if_true, if_false, condition},
                     {});
}

TensorId OperationGraph::reduce(int reduction, std::string_view name, TensorId x, const TensorLayout& layout,
                                const Result& r) {
    const TensorId y = result(r, name, layout);
    const std::string what = about(name, y);
    const auto op_kind = static_cast<cudnnReduceTensorOp_t>(reduction);
    const cudnnDataType_t fp32 = CUDNN_DATA_FLOAT;
    BackendDescriptor parameters = create_descriptor(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, what);
    set(parameters, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &fp32, what);
    set(parameters, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op_kind, what);
    finalize(parameters, what);
    BackendDescriptor op = create_descriptor(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, what);
    set_descriptor(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, parameters.get(), what);
    set_descriptor(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, descriptor(x), what);
    set_descriptor(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, descriptor(y), what);
    finalize(op, what);
    parameters_.push_back(std::move(parameters));
    operations_.push_back(std::move(op));
    return y;
}

TensorId OperationGraph::row_maximum(TensorId x) {
    const auto& e = tensor(x).layout.extents;
    return reduce(CUDNN_REDUCE_TENSOR_MAX, "row maximum", x, packed({e[0], e[1], e[2], 1}), {});
}
TensorId OperationGraph::row_sum(TensorId x) {
    const auto& e = tensor(x).layout.extents;
    return reduce(CUDNN_REDUCE_TENSOR_ADD, "row sum", x, packed({e[0], e[1], e[2], 1}), {});
}
void OperationGraph::group_sum(TensorId x, TensorId into) {
    reduce(CUDNN_REDUCE_TENSOR_ADD, "group sum", x, tensor(into).layout, into);
}

namespace {

struct Heuristics {
    BackendDescriptor engine_heuristics;  // what it returns may lean on it
    std::vector<BackendDescriptor> configurations;
};

Heuristics proposals(const BackendDescriptor& graph, cudnnBackendHeurMode_t mode, const std::string& about) {
    Heuristics h{create_descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, about), {}};
    set_descriptor(h.engine_heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get(), about);
    set(h.engine_heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode, about);
    if (cudnnBackendFinalize(h.engine_heuristics.get()) != CUDNN_STATUS_SUCCESS) return h;  // no engine: none proposed
    std::int64_t count = 0;
    const auto get = [&](std::int64_t room, void* into) {
        check_cudnn(cudnnBackendGetAttribute(h.engine_heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, room, &count, into),
                    about + ": cudnnBackendGetAttribute of the proposed engines");
    };
    get(0, nullptr);
    std::vector<void*> raw;
    for (std::int64_t i = 0; i < count; ++i) {
        h.configurations.push_back(create_descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, about));
        raw.push_back(h.configurations.back().get());
    }
    if (!raw.empty()) get(count, raw.data());
    h.configurations.resize(static_cast<std::size_t>(std::min<std::int64_t>(count, std::ssize(raw))));
    return h;
}

std::string last_message() {
    char text[1024] = {};
    cudnnGetLastErrorString(text, sizeof text);
    return text;
}

// Null, with the reason, where the engine does not take the graph.
BackendDescriptor plan_of(const CudnnHandle& handle, const BackendDescriptor& configuration, const std::string& about,
                          std::string& reason) {
    BackendDescriptor plan = create_descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, about);
    void* raw = handle.get();
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &raw, about);
    set_descriptor(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration.get(), about);
    const cudnnStatus_t status = cudnnBackendFinalize(plan.get());
    if (status == CUDNN_STATUS_SUCCESS) return plan;
    reason = fmt::format("{}: {}", cudnnGetErrorString(status), last_message());
    return nullptr;
}

std::int64_t engine_of(const BackendDescriptor& configuration, const std::string& about) {
    const BackendDescriptor engine = create_descriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, about);
    void* raw = engine.get();
    std::int64_t count = 0, index = -1;
    check_cudnn(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
                about + ": cudnnBackendGetAttribute of the plan's engine");
    check_cudnn(
        cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &index),
        about + ": cudnnBackendGetAttribute of the engine's index");
    return index;
}

struct Choice {
    BackendDescriptor plan;
    std::int64_t engine = -1;
};

Choice first_plan(const CudnnHandle& handle, const BackendDescriptor& graph, const std::string& about) {
    std::string reason = "no engine proposed";
    std::size_t tried = 0;
    for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
        const Heuristics h = proposals(graph, mode, about);
        if (h.configurations.empty()) reason += ": " + last_message();
        for (const BackendDescriptor& configuration : h.configurations) {
            ++tried;
            if (BackendDescriptor plan = plan_of(handle, configuration, about, reason))
                return {std::move(plan), engine_of(configuration, about)};
        }
    }
    throw InputError(
        fmt::format("{}: no engine of {} takes it ({} tried; {})", about, cudnn_description(), tried, reason));
}

}  // namespace

ExecutionPlan::ExecutionPlan(const CudnnHandle& handle, OperationGraph graph) : graph_(std::move(graph)) {
    const std::string about = fmt::format("{}: graph of {} operations", graph_.name_, graph_.operations_.size());
    whole_ = create_descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, about);
    std::vector<void*> operations;
    for (const BackendDescriptor& op : graph_.operations_) operations.push_back(op.get());
    void* raw = handle.get();
    set(whole_, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(operations), operations.data(),
        about);
    set(whole_, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &raw, about);
    finalize(whole_, about);
    Choice choice = first_plan(handle, whole_, about);
    plan_ = std::move(choice.plan);
    engine_ = choice.engine;
    std::int64_t count = 0;
    check_cudnn(cudnnBackendGetAttribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                         &count, &workspace_bytes_),
                about + ": cudnnBackendGetAttribute of the plan's workspace");
}

std::string ExecutionPlan::description() const {
    return fmt::format("{}: engine {}, {} bytes of workspace", graph_.name_, engine_, workspace_bytes_);
}

// A finalized variant pack takes no other pointers, so that every run makes one: a few small allocations on the host.
void ExecutionPlan::run(const CudnnHandle& handle, std::span<const TensorMemory> memory, void* workspace) const {
    std::array<std::int64_t, 32> ids{};
    std::array<void*, 32> pointers{};
    std::size_t count = 0;
    const auto name = [&](TensorId id, const void* at) {
        SLUICE_CHECK(count < ids.size(), "a graph of attention has few tensors in memory");
        ids[count] = static_cast<std::int64_t>(id);
        pointers[count++] = const_cast<void*>(at);  // NOLINT(cppcoreguidelines-pro-type-const-cast): its interface
    };
    for (const TensorMemory& m : memory) name(m.tensor, m.memory);
    for (const auto& t : graph_.tensors_) {
        if (const auto* value = std::get_if<float>(&t.constant)) name(t.id, value);
        if (const auto* value = std::get_if<std::int32_t>(&t.constant)) name(t.id, value);
    }
    const BackendDescriptor pack = create_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, graph_.name_);
    const auto n = static_cast<std::int64_t>(count);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids.data(), graph_.name_);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, pointers.data(), graph_.name_);
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace, graph_.name_);
    finalize(pack, graph_.name_);
    const cudnnStatus_t status = cudnnBackendExecute(static_cast<cudnnHandle_t>(handle.get()), plan_.get(), pack.get());
    if (status != CUDNN_STATUS_SUCCESS) check_cudnn(status, graph_.name_ + ": cudnnBackendExecute");
}

}  // namespace sluice::cuda
