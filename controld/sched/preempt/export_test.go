package preempt

import (
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// What tests of this package look at beside its exported names.
const Dear = dear
const One = one

func CandidateAlternative(x *Candidate) *int32    { return &x.alternative }
func PreemptorState(x *Preemptor) **scratch.State { return &x.state }

var Part = part
var PreemptorFreed = (*Preemptor).freed
var PreemptorSharedCheapest = (*Preemptor).sharedCheapest
var SearchLeastOn = (*search).leastOn
var SearchOffer = (*search).offer
var SearchShut = (*search).shut
var WorkersIn = workersIn

var WeightOfNode = tunables.NodeWeight
