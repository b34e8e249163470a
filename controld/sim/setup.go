package sim

import (
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sim/trace"
)

// Defaults of a [Setup].
const (
	DefaultBound    = 60_000 // ms
	DefaultWideGPUs = 16
)

// Setup says on what and how a trace is replayed. Times are in ms.
type Setup struct {
	Nodes    []cluster.Node
	Policy   Policy
	Seed     uint64
	Tick     int64 // decide only at multiples of it; 0: whenever something happens
	Overhead int64 // a restart holds its room this long without progress, where the trace does not say
	Bound    int64 // shorter jobs count as this long in bounded slowdowns; 0: DefaultBound
	Until    int64 // end here, counted as submit times are; 0: when all jobs have ended
	WideGPUs int64 // jobs of at least so many GPUs are reported apart; 0: DefaultWideGPUs

	// Deserved is each account's share of the cluster. Nil: nobody has one, and no rho is computed.
	Deserved Shares

	Check bool // verify every invariant of the state every thousand commands and at the end
	Spans bool // keep what plots need: [Result].Story

	Clock    func() int64   // ns of some monotonic clock, to time decisions with; nil: they are not timed
	Stopped  func() bool    // asked now and then; true ends the run, whose result is of what was simulated so far
	Progress func(Progress) // told now and then
	Decided  func(Decision) // told every start, end, resize and displacement, in order; its places must not be changed

	decided   func(at cluster.Instant, p *cluster.CommitPlan) // told every plan that is not empty; for tests
	displaced int                                             // displacements of one job after which a run ends; 0: as it is for users
}

// Progress is how far a run has come.
type Progress struct {
	At       int64 // ms of the trace's time
	Arrived  int
	Finished int
	Jobs     int
}

// Shares are what accounts deserve.
type Shares struct {
	Equal bool             // all of the trace's accounts the same
	GPUs  map[string]int64 // thousandths of a GPU by account, if not Equal
}

// Any reports whether anybody has a share.
func (s *Shares) Any() bool { return s.Equal || len(s.GPUs) > 0 }

// of returns what an account deserves of a cluster, in thousandths of a GPU.
func (s *Shares) of(account string, accounts int, gpus int64) int64 {
	if s.Equal {
		return gpus / int64(max(1, accounts))
	}
	return s.GPUs[account]
}

// table is what the configuration says of the accounts of a trace, nil if nobody deserves anything in particular.
func (s *Setup) table(accounts []string) (map[string]cluster.Account, error) {
	if !s.Deserved.Any() {
		return nil, nil
	}
	if len(accounts) > cluster.MaxAccounts {
		return nil, fmt.Errorf("%d accounts in the trace, of at most %d it can be said what they deserve: %w", len(accounts), cluster.MaxAccounts, ErrSetup)
	}
	have, sum := trace.Capacity(s.Nodes).GPUs, int64(0)
	all := map[string]cluster.Account{}
	for _, name := range accounts {
		gpus := s.Deserved.of(name, len(accounts), have)
		sum += gpus
		if gpus > 0 {
			all[name] = cluster.Account{Terms: cluster.Terms{Deserved: &cluster.Quota{GPUs: &gpus}}}
		}
	}
	if sum > have {
		return nil, fmt.Errorf("the accounts deserve %g GPUs together, the nodes have %g: %w", float64(sum)/1000, float64(have)/1000, ErrSetup)
	}
	return all, nil
}

// ErrSetup says that workload, nodes and options do not go together, which whoever asked for them can mend.
var ErrSetup = errors.New("the simulation cannot be set up")

func (s *Setup) check(t *trace.Trace) error {
	switch {
	case len(s.Nodes) == 0:
		return fmt.Errorf("no nodes: %w", ErrSetup)
	case len(t.Jobs) == 0:
		return fmt.Errorf("no jobs: %w", ErrSetup)
	case s.Tick < 0 || s.Overhead < 0 || s.Bound < 0 || s.Until < 0 || s.WideGPUs < 0:
		return fmt.Errorf("a time or a number is negative: %w", ErrSetup)
	case s.Policy.row == nil:
		return fmt.Errorf("no policy: %w", ErrSetup)
	}
	return nil
}

func (s *Setup) fill() {
	if s.Bound == 0 {
		s.Bound = DefaultBound
	}
	if s.WideGPUs == 0 {
		s.WideGPUs = DefaultWideGPUs
	}
	if s.displaced == 0 {
		s.displaced = maxDisplaced
	}
}
