#include "runtime/cuda_decoder/device_step_data.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "runtime/cuda/engine_memory.h"

namespace sluice::cuda {
namespace {

std::int64_t tokens_of(const Scenario& s) { return s.sequence.value * s.batch; }

void expect_in_vocabulary(const std::vector<TokenId>& ids, std::size_t sequence, std::int64_t vocabulary) {
    const auto bad = first_bad_token(ids, vocabulary);
    if (!bad) return;
    throw InputError(fmt::format("bad token id, got {} at position {} of sequence {} of the batch, expected 0 to {}",
                                 ids[static_cast<std::size_t>(*bad)], *bad, sequence, vocabulary - 1));
}

template <class Element>
void put(const std::vector<Element>& values, Element* device) {
    upload(std::as_bytes(std::span(values)), reinterpret_cast<std::byte*>(device));
}

}  // namespace

DeviceStepData::DeviceStepData(const Scenario& s, std::vector<RunSubsequence> embedded, VocabularyShard shard)
    : length_(static_cast<std::size_t>(s.sequence.value)),
      batch_(static_cast<std::size_t>(s.batch)),
      shard_(shard),
      embedded_(std::move(embedded)),
      ids_(kTokenIdBytes * tokens_of(s), "tokens of a step"),
      sorted_(kSortedTokenBytes * tokens_of(s), "sorted tokens of a step"),
      losses_(Bytes{static_cast<std::int64_t>(sizeof(double)) * s.batch}, "losses") {
    tokens_.inputs = ids_.as<TokenId>();
    tokens_.targets = ids_.as<TokenId>() + tokens_of(s);
    tokens_.sorted.assign(batch_, std::vector<DeviceSortedTokens>(embedded_.size()));
}

Bytes DeviceStepData::bytes(const Scenario& s) {
    return kTokenBytes * tokens_of(s) + Bytes{static_cast<std::int64_t>(sizeof(double)) * s.batch};
}

void DeviceStepData::begin_step(const StepInputs& inputs) {
    for (std::size_t b = 0; b < batch_; ++b) {
        expect_in_vocabulary(inputs.inputs[b], b, shard_.vocabulary);
        expect_in_vocabulary(inputs.targets[b], b, shard_.vocabulary);
        put(inputs.inputs[b], const_cast<TokenId*>(tokens_.inputs) + b * length_);
        put(inputs.targets[b], const_cast<TokenId*>(tokens_.targets) + b * length_);
        for (std::size_t i = 0; i < embedded_.size(); ++i)
            sort_into(b, i,
                      std::span(inputs.inputs[b])
                          .subspan(static_cast<std::size_t>(embedded_[i].begin.value),
                                   static_cast<std::size_t>(embedded_[i].length.value)));
    }
    put(std::vector<double>(batch_, 0), losses_.as<double>());
}

// A slot has four places per token: token, row, and the begins, of which there is one more than rows, so two places.
void DeviceStepData::sort_into(std::size_t sequence, std::size_t i, std::span<const TokenId> ids) {
    const SortedTokens sorted = sort_tokens(ids, shard_);
    const std::size_t first = sequence * length_ + static_cast<std::size_t>(embedded_[i].begin.value);
    std::int32_t* const slot = sorted_.as<std::int32_t>() + 4 * first;
    put(sorted.token, slot);
    put(sorted.row, slot + ids.size());
    put(sorted.begin, slot + 2 * ids.size());
    tokens_.sorted[sequence][i] = {slot, slot + ids.size(), slot + 2 * ids.size(),
                                   static_cast<std::int64_t>(sorted.row.size())};
}

std::vector<double> DeviceStepData::losses() const {
    std::vector<double> values(batch_);
    download(losses_.bytes().data(), std::as_writable_bytes(std::span(values)));
    return values;
}

}  // namespace sluice::cuda
