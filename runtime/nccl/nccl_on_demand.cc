// The only file that knows NCCL. Loaded, not linked: every command would pay for it, those too that never touch a GPU,
// and a machine with one GPU need not have it.
#include <dlfcn.h>
#include <fmt/format.h>
#include <nccl.h>

#include <cstring>
#include <string>

#include "base/error.h"
#include "runtime/nccl/nccl_functions.h"

namespace sluice::cuda {
namespace {

// Never unloaded: its threads outlive any scope that could do it.
void* library() {
    static void* const loaded = [] {
        const std::string name = fmt::format("libnccl.so.{}", NCCL_MAJOR);
        if (void* const found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
        throw EnvironmentError(fmt::format("NCCL cannot be loaded, and several GPUs need it: {}", dlerror()));
    }();
    return loaded;
}

template <class Function>
Function* find(const char* name) {
    if (void* const found = dlsym(library(), name)) return reinterpret_cast<Function*>(found);
    throw EnvironmentError(fmt::format("NCCL is another version than this was built for: it has no {}", name));
}

#define SLUICE_NCCL(name)                                            \
    (*[] {                                                           \
        static auto* const function = find<decltype(::name)>(#name); \
        return function;                                             \
    }())

ncclDataType_t type_of(ElementType type) {
    return type == ElementType::kBf16 ? ncclBfloat16 : type == ElementType::kFp32 ? ncclFloat32 : ncclFloat64;
}

int make_id(NcclId* id) {
    ncclUniqueId made;
    static_assert(sizeof made == sizeof *id);
    const int code = SLUICE_NCCL(ncclGetUniqueId)(&made);
    std::memcpy(id->data(), &made, sizeof made);
    return code;
}

int begin(ncclComm** comm, int members, const NcclId* id, int member) {
    ncclUniqueId unique;
    std::memcpy(&unique, id->data(), sizeof unique);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // so that who waits for a lost partner can be called back
    return SLUICE_NCCL(ncclCommInitRankConfig)(comm, members, unique, member, &config);
}

int state(ncclComm* comm, int* state) {
    ncclResult_t now = ncclSuccess;
    const int code = SLUICE_NCCL(ncclCommGetAsyncError)(comm, &now);
    *state = now;
    return code;
}

int all_gather(const void* mine, void* all, std::size_t bytes, ncclComm* comm, Stream stream) {
    return SLUICE_NCCL(ncclAllGather)(mine, all, bytes, ncclInt8, comm, stream);
}
int reduce_scatter(const void* all, void* mine, std::size_t count, ElementType type, ncclComm* comm, Stream stream) {
    return SLUICE_NCCL(ncclReduceScatter)(all, mine, count, type_of(type), ncclSum, comm, stream);
}
int all_reduce(void* values, std::size_t count, ElementType type, ncclComm* comm, Stream stream) {
    return SLUICE_NCCL(ncclAllReduce)(values, values, count, type_of(type), ncclSum, comm, stream);
}
int reduce(void* values, std::size_t count, ElementType type, int root, ncclComm* comm, Stream stream) {
    return SLUICE_NCCL(ncclReduce)(values, values, count, type_of(type), ncclSum, root, comm, stream);
}
int broadcast(void* bytes, std::size_t count, int root, ncclComm* comm, Stream stream) {
    return SLUICE_NCCL(ncclBroadcast)(bytes, bytes, count, ncclInt8, root, comm, stream);
}
int send(const void* bytes, std::size_t count, int to, ncclComm* comm, Stream stream) {
    return SLUICE_NCCL(ncclSend)(bytes, count, ncclInt8, to, comm, stream);
}
int receive(void* bytes, std::size_t count, int from, ncclComm* comm, Stream stream) {
    return SLUICE_NCCL(ncclRecv)(bytes, count, ncclInt8, from, comm, stream);
}

NcclFunctions functions() {
    static_assert(kNcclSuccess == ncclSuccess && kNcclInProgress == ncclInProgress);
    NcclFunctions f;
    f.version = [](int* version) -> int { return SLUICE_NCCL(ncclGetVersion)(version); };
    f.make_id = make_id;
    f.begin = begin;
    f.state = state;
    f.abort = [](ncclComm* comm) -> int { return SLUICE_NCCL(ncclCommAbort)(comm); };
    f.group_start = []() -> int { return SLUICE_NCCL(ncclGroupStart)(); };
    f.group_end = []() -> int { return SLUICE_NCCL(ncclGroupEnd)(); };
    f.all_gather = all_gather;
    f.reduce_scatter = reduce_scatter;
    f.all_reduce = all_reduce;
    f.reduce = reduce;
    f.broadcast = broadcast;
    f.send = send;
    f.receive = receive;
    f.describe = [](int code) { return SLUICE_NCCL(ncclGetErrorString)(static_cast<ncclResult_t>(code)); };
    f.last_error = [] { return SLUICE_NCCL(ncclGetLastError)(nullptr); };
    return f;
}

int version_of(const NcclFunctions& nccl) {
    int version = 0;
    if (const int code = nccl.version(&version); code != kNcclSuccess)
        throw EnvironmentError(fmt::format("NCCL: {}", nccl.describe(code)));
    return version;
}

}  // namespace

const NcclFunctions& nccl_library() {
    static const NcclFunctions loaded = [] {
        const NcclFunctions found = functions();
        if (const int version = version_of(found); version < NCCL_VERSION(2, 18, 0))
            throw EnvironmentError(fmt::format("NCCL {} is too old, expected 2.18 or later", version));
        return found;
    }();
    return loaded;
}

std::string nccl_version() {
    const int version = version_of(nccl_library());
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace sluice::cuda
