package sim

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sim/interference"
	"github.com/rota-hpc/rota/controld/sim/trace"
)

// Defaults of a [Setup].
const (
	DefaultBound    = 60_000 // ms
	DefaultWideGPUs = 16
)

// Setup says on which cluster and how a trace is replayed. Times are in ms.
type Setup struct {
	Nodes  []model.Node
	Policy Policy
	// Configured is the policy of a cluster's file. It sets the limit of trial-and-error jobs, and all
	// else if it is the same policy. nil: they may hold any number of GPUs.
	Configured *cluster.Policy
	// Limits is the configuration of a cluster's file, for the limits of its users, its accounts
	// and its default queue. nil: there are none.
	Limits *cluster.Config

	Seed     uint64
	Tick     int64 // cycles run at its multiples only; 0: whenever something happens
	Overhead int64 // a restart holds its capacity this long without progress, unless the trace says otherwise
	Bound    int64 // shorter jobs count as this long in bounded slowdowns; 0: DefaultBound
	Until    int64 // the run ends here, in the time of submissions; 0: when all jobs have ended
	WideGPUs int64 // jobs of at least this many GPUs are reported separately; 0: DefaultWideGPUs

	// Window is the time over which useful utilisation is measured, from the first arrival on; zeros: until
	// the last arrival.
	Window [2]int64

	// Networks is the table of the networks that jobs train; nil: the built-in table.
	Networks *interference.Table

	// Deserved has the quota of each account. Without any, no rho is computed.
	Deserved Shares

	Check bool // verify every invariant of the state every thousand commands and at the end
	Spans bool // keep the data of plots: [Result].Story

	Clock    func() int64      // ns of a monotonic clock, to time decisions; nil: they are not timed
	Stopped  func() bool       // called now and then; true ends the run, whose result covers the simulated time so far
	Progress func(RunProgress) // called now and then
	Decided  func(Decision)    // called with every [Step], in order; must not change places

	decided     func(at model.Instant, p *fsm.CommitPlan) // called with every plan that is not empty; for tests
	maxPreempts int                                       // of one job, after which a run ends; 0: maxPreempted
}

// RunProgress is how far a run has come.
type RunProgress struct {
	At       int64 // ms of the trace's time
	Arrived  int
	Finished int
	Jobs     int
}

// Shares are the quotas of accounts.
type Shares struct {
	Equal bool             // all accounts of the trace have the same
	GPUs  map[string]int64 // thousandths of a GPU by account, if not Equal
}

// Any reports whether any account has a quota.
func (s *Shares) Any() bool { return s.Equal || len(s.GPUs) > 0 }

// of returns an account's quota of a cluster, in thousandths of a GPU.
func (s *Shares) of(account string, accounts int, gpus int64) int64 {
	if s.Equal {
		return gpus / int64(max(1, accounts))
	}
	return s.GPUs[account]
}

// table returns the accounts of a trace for the configuration, nil without quotas.
func (s *Setup) table(accounts []string) (map[string]cluster.Account, error) {
	if !s.Deserved.Any() {
		return nil, nil
	}
	if len(accounts) > cluster.MaxAccounts {
		return nil, fmt.Errorf("%d accounts in the trace; at most %d can have a quota: %w", len(accounts),
			cluster.MaxAccounts, ErrSetup)
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
		return nil, fmt.Errorf("the quotas add up to %g GPUs, but the nodes have %g: %w", float64(sum)/1000,
			float64(have)/1000,
			ErrSetup)
	}
	return all, nil
}

// ErrSetup says that workload, nodes and options do not match. The user can correct them.
var ErrSetup = errors.New("invalid simulation settings")

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
	return s.checkNetworks(t)
}

// checkNetworks refuses jobs that train a network outside the table.
func (s *Setup) checkNetworks(t *trace.Trace) error {
	table := s.Networks
	for i := range t.Jobs {
		j := &t.Jobs[i]
		if j.Model == "" {
			continue
		}
		if table == nil {
			table = interference.Default()
		}
		if table.Network(j.Model) == nil {
			return fmt.Errorf("job %s trains network %q, which is missing from the table of networks: %w", j.ID, j.Model,
				ErrSetup)
		}
	}
	return nil
}

func (s *Setup) fill() {
	if s.Networks == nil {
		s.Networks = interference.Default()
	}
	s.Bound = cmp.Or(s.Bound, DefaultBound)
	s.WideGPUs = cmp.Or(s.WideGPUs, DefaultWideGPUs)
	s.maxPreempts = cmp.Or(s.maxPreempts, maxPreempted)
}

// clock returns the time of Clock, 0 without one.
func (s *Setup) clock() int64 {
	if s.Clock == nil {
		return 0
	}
	return s.Clock()
}
