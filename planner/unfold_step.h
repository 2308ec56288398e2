// The last lowering pass: one rank per stage becomes its whole sequence-parallel group.
#pragma once

#include "planner/folded_step.h"
#include "scenarios/scenario.h"
#include "schedule/schedule.h"

namespace sluice {

// Rank s of the folded step becomes ranks s x sp .. s x sp + sp - 1; shard t talks to shard t of its neighbours. Rank r
// is GPU r: it uses the memory of node r / gpus_per_node. Offsets are copied, so a placed step stays placed.
Schedule unfold_step(const FoldedStep&, const Scenario&);

// The step without its device buffers and the accesses to them. Ops take as long, wait for the same and pin as much: a
// replay that is asked for the length of the step and no more looks at nothing else.
FoldedStep without_device_buffers(const FoldedStep&);

}  // namespace sluice
