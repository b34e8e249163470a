package sim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// Errors of [ParsePolicy]. Their text lists the known values.
var (
	ErrPolicy = errors.New("no such policy")
	ErrKey    = errors.New("unknown parameter of the policy")
	ErrValue  = errors.New("invalid value of a policy's parameter")
)

// Policy is a policy with its parameters, as `--policy NAME:key=value,...` has it.
type Policy struct {
	Name   string
	Params map[string]string // as given by the user
	row    *policyRow
}

// knowledge is a policy's knowledge of run times.
type knowledge int

const (
	knowsNothing knowledge = iota
	knowsLimits            // the estimate of the trace, or the exact length if there is none
	knowsAll               // the exact length
)

// policyRow is one policy that can be simulated.
type policyRow struct {
	name  string
	what  string // a description of one line
	knows knowledge
	keys  []policyKey

	elastic bool  // it may give elastic jobs other numbers of workers than they request
	idle    int64 // ms for which capacity is free before jobs grow into it, unless set; 0: as the jobs say
}

// policyKey is one parameter. set puts it into the policy block of the configuration.
type policyKey struct {
	name string
	what string
	set  func(p *cluster.Policy, value string) error
}

// sharingKey is one parameter of how jobs share nodes, which the queue has under every policy.
type sharingKey struct {
	name string
	what string
	set  func(s *cluster.Sharing, value string) error
}

var sharingKeys = []sharingKey{
	{"oversubscribe", "how many times its GPUs a node takes jobs that take turns; 0: no turns",
		func(s *cluster.Sharing, value string) error {
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 || n > cluster.MaxOversubscribe {
				return fmt.Errorf("%q is not a whole number from 0 to %d", value, cluster.MaxOversubscribe)
			}
			s.Oversubscribe = n
			return nil
		}},
	{"pack", "on: several jobs may be put on one GPU",
		onOrOff(func(s *cluster.Sharing) *bool { return &s.Pack })},
	{"migrate", "on: jobs may move to other nodes",
		onOrOff(func(s *cluster.Sharing) *bool { return &s.Migrate })},
}

func onOrOff(field func(*cluster.Sharing) *bool) func(*cluster.Sharing, string) error {
	return func(s *cluster.Sharing, value string) error {
		if value != "on" && value != "off" {
			return fmt.Errorf("%q is not on or off", value)
		}
		*field(s) = value == "on"
		return nil
	}
}

// policyRows has a row for every policy that sched offers, in the order in which users see them.
var policyRows = []policyRow{
	{name: "rota", what: "the default: classes, preemption at least cost, one order by service index, reservations",
		keys: slices.Concat(reservationKeys, rotaPreemptKeys, rotaKeys, tuningKeys()), elastic: true},
	{name: "fairshare", what: "accounts and users with the least use of their share first; reclaim",
		keys: slices.Concat(reservationKeys, shareKeys)},
	{name: "standard", what: "class, priority, age; whole gangs, best fit, bounded bypass; no preemption",
		keys: reservationKeys},
	{name: "fifo", what: "strictly in order: no job passes the first that does not fit", keys: placementKeys},
	{name: "backfill", what: "in order; jobs may pass jobs that do not fit", keys: placementKeys},
	{name: "easy", what: "backfill that does not delay the first blocked job, by time limits (--estimates)",
		knows: knowsLimits},
	{name: "sjf", what: "the shortest first, by the actual run times", knows: knowsAll},
	{name: "srtf", what: "the least remaining time first, by the actual run times, with preemption", knows: knowsAll,
		keys: preemptionKeys},
	{name: "las", what: "the least attained service first, with preemption", keys: preemptionKeys},
	{name: "spread", what: "every worker to the emptiest node, as Kubernetes does by default"},
	{name: "fitgpp", what: "the FitGpp paper's: preempts the victim with the least size and grace whose node then fits " +
		"the job",
		keys: append(slices.Clone(paperKeys), obeysKey)},
	{name: "lrtp", what: "a baseline of the paper: victims with the most remaining time, by the actual run times",
		knows: knowsAll, keys: paperKeys[1:]},
	{name: "rand", what: "a baseline of the paper: random victims", keys: paperKeys[1:]},
	{name: "elastic", what: "grows and shrinks elastic jobs by weight, with a tipping point",
		keys: slices.Concat(reservationKeys, elasticKeys), elastic: true, idle: 60_000},
	{name: "static", what: "elastic jobs at the size that they request"},
	{name: "dragon", what: "grows and shrinks elastic jobs like DRAGON's scheduler for Kubeflow", elastic: true},
}

// reservationKeys are the parameters of policies that reserve capacity for a blocked head of the
// queue.
var reservationKeys = []policyKey{
	{"reserve_after", "how long the head of the queue waits before capacity is reserved for it, such as 10m",
		duration(func(p *cluster.Policy) *int64 { return &p.ReserveAfterMS })},
	{"reserve_hold", "how long the reservation lasts",
		positiveDuration(func(p *cluster.Policy) *int64 { return &p.ReserveHoldMS })},
	{"max_bypass", "after so many starts past the head of the queue, capacity is reserved for it",
		whole(0, 1_000_000_000, func(p *cluster.Policy) *int { return &p.MaxBypass })},
}

// shareKeys are the parameters of policies that use the quotas of accounts and users.
var shareKeys = []policyKey{
	{"min_runtime", "least run time before a job is preempted for another account",
		positiveDuration(func(p *cluster.Policy) *int64 { return &p.MinRuntimeMS })},
	{"half_life", "after which usage counts half; 0s for no decay",
		duration(func(p *cluster.Policy) *int64 { return &p.HalfLifeMS })},
	{"influence", "how strongly past usage counts in the division of spare capacity, in thousandths",
		whole(0, 1_000_000_000, func(p *cluster.Policy) *int { return &p.UsageInfluence })},
}

// preemptionKeys are the parameters of policies that preempt.
var preemptionKeys = []policyKey{
	{"min_run", "least run time before a job is preempted",
		duration(func(p *cluster.Policy) *int64 { return &p.MinRunMS })},
}

// elasticKeys are the parameters of policies that resize jobs.
var elasticKeys = []policyKey{
	{"grow_after", "how long capacity must be free before a job grows into it",
		positiveDuration(func(p *cluster.Policy) *int64 { return &p.GrowAfterMS })},
	{"cooldown", "how long a job keeps its size unless others need its capacity",
		positiveDuration(func(p *cluster.Policy) *int64 { return &p.CooldownMS })},
	{"gain", "least speed-up for which a job keeps additional workers, in thousandths",
		whole(1, 1000, func(p *cluster.Policy) *int64 { return &p.GrowGainPM })},
}

// rotaKeys are the parameters of policy rota.
var rotaKeys = []policyKey{
	elasticKeys[0], elasticKeys[1],
	{"elastic", "off: elastic jobs have a fixed number of workers", func(
		p *cluster.Policy, value string,
	) error {
		switch value {
		case "on", "off":
			p.Rigid = value == "off"
			return nil
		}
		return fmt.Errorf("%q is not on or off", value)
	}},
}

// tuningKeys are the tunables of policy rota.
func tuningKeys() (keys []policyKey) {
	for _, t := range cluster.Tunables() {
		does := t.Does + ": " + t.Unit + "; 0: off"
		keys = append(keys, policyKey{t.Name, does, func(p *cluster.Policy, value string) error {
			err := whole(0, cluster.MostTunable, t.Field)(p, value)
			if err == nil && *t.Field(p) == 0 {
				*t.Field(p) = -1
			}
			return err
		}})
	}
	return keys
}

// whole sets a whole number within bounds.
func whole[T int | int64](least, most int64, field func(*cluster.Policy) *T) func(*cluster.Policy, string) error {
	return func(p *cluster.Policy, value string) error {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%q is not a whole number from %d to %d", value, least, most)
		}
		*field(p) = T(n)
		return nil
	}
}

// positiveDuration sets a duration that may not be zero, because zero would mean the default, or
// would be over at once.
func positiveDuration(field func(*cluster.Policy) *int64) func(*cluster.Policy, string) error {
	read := duration(field)
	return func(p *cluster.Policy, value string) error {
		if err := read(p, value); err != nil {
			return err
		}
		if *field(p) == 0 {
			return fmt.Errorf("%q is zero: must be at least a second", value)
		}
		return nil
	}
}

func duration(field func(*cluster.Policy) *int64) func(*cluster.Policy, string) error {
	return func(p *cluster.Policy, value string) error {
		s, err := jobspec.ParseSeconds(value)
		if err != nil {
			return err
		}
		*field(p) = int64(s) * 1000
		return nil
	}
}

// rowOf returns the row of a policy, nil if there is none.
func rowOf(name string) *policyRow {
	if i := slices.IndexFunc(policyRows, func(r policyRow) bool { return r.name == name }); i >= 0 {
		return &policyRows[i]
	}
	return nil
}

// PolicyNames are the policies that can be simulated.
func PolicyNames() []string {
	names := make([]string, len(policyRows))
	for i := range policyRows {
		names[i] = policyRows[i].name
	}
	return names
}

// ParsePolicy reads NAME or NAME:key=value,key=value. Its error wraps [ErrPolicy], [ErrKey] or
// [ErrValue] and lists the known values.
func ParsePolicy(text string) (Policy, error) {
	name, rest, given := strings.Cut(strings.TrimSpace(text), ":")
	row := rowOf(name)
	if row == nil {
		return Policy{}, fmt.Errorf("policy %q: %w; the policies are %s", name, ErrPolicy, strings.Join(PolicyNames(), ", "))
	}
	p := Policy{Name: name, row: row, Params: map[string]string{}}
	if !given {
		return p, nil
	}
	for part := range strings.SplitSeq(rest, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return Policy{}, fmt.Errorf("policy %s: %q is not KEY=VALUE: %w; %s", name, part, ErrValue, row.known())
		}
		if _, twice := p.Params[key]; twice {
			return Policy{}, fmt.Errorf("policy %s: %s is given twice: %w", name, key, ErrValue)
		}
		p.Params[key] = value
	}
	_, err := p.config(nil)
	return p, err
}

// String is the policy as it can be parsed again, its parameters in order.
func (p *Policy) String() string {
	if len(p.Params) == 0 {
		return p.Name
	}
	var parts []string
	for _, k := range p.keys() {
		parts = append(parts, k+"="+p.Params[k])
	}
	return p.Name + ":" + strings.Join(parts, ",")
}

// keys lists the parameters that are set, in order.
func (p *Policy) keys() []string { return slices.Sorted(maps.Keys(p.Params)) }

// config returns the configuration of a cluster with this policy. Its queue has no limits, because
// traces have jobs of any length. It has the configured policy's limit for trial-and-error jobs,
// and all else too if it is the same policy, unless it is a parameter. Without a configured policy
// trial-and-error jobs may hold any number of GPUs.
func (p *Policy) config(configured *cluster.Policy) (cluster.Config, error) {
	cfg := cluster.DefaultConfig()
	switch {
	case configured == nil:
		cfg.Policy.TEAccountPM, cfg.Policy.TEUserPM = 1000, 1000 // a trace has as many as it has
	case cmp.Or(configured.Name, cluster.NewPolicy) == p.Name:
		cfg.Policy = *configured
	default:
		cfg.Policy.TEAccountGPUs = configured.TEAccountGPUs
		cfg.Policy.TEAccountPM, cfg.Policy.TEUserPM = configured.TEAccountPM, configured.TEUserPM
	}
	cfg.ClusterName = "simulation"
	queue := cluster.Queue{DefaultClass: jobspec.BE}
	cfg.Policy.Name = p.Name
	cfg.Policy.GrowAfterMS = cmp.Or(cfg.Policy.GrowAfterMS, p.row.idle)
	for _, key := range p.keys() {
		switch err := p.row.set(&cfg.Policy, &queue.Sharing, key, p.Params[key]); {
		case errors.Is(err, ErrKey):
			return cfg, fmt.Errorf("policy %s: %q: %w; %s", p.Name, key, ErrKey, p.row.known())
		case err != nil:
			return cfg, fmt.Errorf("policy %s: %s: %w: %w", p.Name, key, ErrValue, err)
		}
	}
	cfg.Queues = map[string]cluster.Queue{"default": queue}
	return cfg, nil
}

// set puts a parameter into the policy block of the configuration, or into how its queue's jobs
// share nodes.
func (r *policyRow) set(p *cluster.Policy, q *cluster.Sharing, key, value string) error {
	for _, k := range sharingKeys {
		if k.name == key {
			return k.set(q, value)
		}
	}
	i := slices.IndexFunc(r.keys, func(k policyKey) bool { return k.name == key })
	if i < 0 {
		return ErrKey
	}
	return r.keys[i].set(p, value)
}

// known lists the parameters of a policy.
func (r *policyRow) known() string {
	var list []string
	for _, k := range r.keys {
		list = append(list, k.name+" ("+k.what+")")
	}
	for _, k := range sharingKeys {
		list = append(list, k.name+" ("+k.what+")")
	}
	return "there are " + strings.Join(list, ", ")
}

// limit returns the time limit with which a job is submitted, in ms of whole seconds, 0 for none.
// It also returns whether the limit is only an estimate of the run time.
func (p *Policy) limit(j *trace.Job, alone int64) (ms int64, guess bool) {
	switch {
	case p.row.knows == knowsAll && j.Limit > 0 && j.Limit < alone:
		return wholeSeconds(j.Limit), false
	case p.row.knows == knowsAll, p.row.knows == knowsLimits && j.Estimate == 0 && j.Limit == 0:
		return wholeSeconds(alone), true
	case p.row.knows == knowsLimits && j.Limit == 0:
		return wholeSeconds(j.Estimate), true
	case j.Limit > 0:
		return wholeSeconds(j.Limit), false
	}
	return 0, false
}

// wholeSeconds rounds ms up to whole seconds, at least one.
func wholeSeconds(ms int64) int64 { return max(1000, (ms+999)/1000*1000) }
