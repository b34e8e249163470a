package preempt

// Tunables are the numbers that steer the search for victims. Each has a unit, a reason and its
// evidence.
type Tunables struct {
	// GraceWeight, in thousandths of the greatest size: the weight of the longest grace period in
	// the cost, if the policy block does not say. Reason: room that comes late is worth less.
	// Evidence: cmd/lab/papers.md, "The weight s of grace".
	GraceWeight int64
	// OnceWeight, in thousandths of the greatest size: what it costs to end a job that must not be
	// started again. Reason: such a job leaves last, after those that lose all their work. Evidence:
	// more than forty victims that are as dear as the other weights can make them.
	OnceWeight int64
	// NodeWeight, in thousandths of the greatest size: the weight of each node beyond the first that
	// a gang is put on. Reason: gangs run faster close together. Evidence: a round number, chosen
	// without measurement.
	NodeWeight int64
	// MaxItems, in candidates on one node: so many are looked at, the cheapest; at most 64, they are
	// bits. Reason: bounds the time of a search. Evidence: as many as a word has bits; whether fewer
	// would do was not measured.
	MaxItems int
	// MaxStates, in sets on one node: so many are kept at a time, the cheapest. Reason: as above.
	// Evidence: a round number, chosen without measurement.
	MaxStates int
	// MaxForced, in candidates on several nodes: so many are tried as given, one at a time. Reason: as
	// above. Evidence: chosen without measurement.
	MaxForced int
	// MaxAcross, in candidates: with more, no sets of candidates on several nodes are tried: each of
	// their nodes is looked at for that. Reason: as above. Evidence: a round number, chosen without
	// measurement.
	MaxAcross int
	// KeepCycles, in cycles: candidates are remembered for so many cycles that need none. Reason:
	// jobs among them may have left the state. Evidence: a round number, chosen without measurement.
	KeepCycles int
	// MaxNumbered, in names: so many are numbered before all are forgotten. Reason: they may not be
	// in use any more. Evidence: a round number, chosen without measurement.
	MaxNumbered int
	// TEAccountPM, in thousandths of the cluster: trial-and-error jobs of one account hold at most so
	// much at once, if the policy block does not say. One job is always allowed. Reason: all jobs of a
	// group that are labelled so must not put out those of others. Evidence: a round number, chosen
	// without measurement.
	TEAccountPM int64
	// TEUserPM, in thousandths of the cluster: the same for one user. Reason: several users of an
	// account can try something at once. Evidence: a round number, chosen without measurement.
	TEUserPM int64
}

// tunables are the values in use. They never change.
var tunables = Tunables{
	GraceWeight: 4000,
	OnceWeight:  4_000_000,
	NodeWeight:  500,
	MaxItems:    64,
	MaxStates:   512,
	MaxForced:   6,
	MaxAcross:   2048,
	KeepCycles:  256,
	MaxNumbered: 1 << 14,
	TEAccountPM: 250,
	TEUserPM:    150,
}
