#include "schedule/op_class.h"

namespace sluice {
namespace {

struct OpClass {
    std::string_view operator()(const Gemm&) const { return "gemm"; }
    std::string_view operator()(const Attention& a) const {
        return a.pass == Pass::kForward ? "attention_forward" : "attention_backward";
    }
    std::string_view operator()(const Pointwise& p) const { return name(p.kind); }
};

}  // namespace

std::string_view op_class(const KernelShape& shape) { return std::visit(OpClass{}, shape); }

}  // namespace sluice
