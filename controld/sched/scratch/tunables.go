package scratch

// Tunables are the numbers that bound a cycle.
type Tunables struct {
	// MaxStarts, in starts: a cycle under policies rota, fairshare and standard ends after so many,
	// and the next one goes on at once. Reason: while a cycle decides, nothing that arrives meanwhile
	// is considered, and its plan is committed only when it is over. Evidence:
	// cmd/lab/benchmarks.md, "Starts of one cycle".
	MaxStarts int
}

// tunables are the values in use. They never change.
var tunables = Tunables{MaxStarts: 1000}
