package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// Policy is how jobs are ordered, displaced and retried: policy "rota" { p = 2 }. Without a name
// the cluster keeps the policy that it has. A parameter that is not written has the policy's
// default.
type Policy struct {
	Name    string `hcl:"name,label,optional"`
	written []written
}

// written is one parameter as the file has it.
type written struct {
	name string
	over func(base *cluster.Policy)
}

// parameter is one attribute of a policy block.
type parameter struct {
	name, typ, doc string
	set            func(p *cluster.Policy, text string) error
	text           func(p *cluster.Policy) string // as it is written; "" for the policy's default
}

// policyRow is a policy that a cluster can have, and its parameters besides the common ones.
type policyRow struct {
	name   string
	params []parameter
}

// policyRows has every policy but those that only a simulation can have. A cluster may be given those
// of [cluster.Policies]; the files of clusters that have another one since an earlier version can
// still be read.
var policyRows = []policyRow{
	{"rota", slices.Concat(reserving, making, resting, []parameter{rigid}, tuning())},
	{"fairshare", slices.Concat(reserving, sharing)},
	{"standard", reserving},
	{"fifo", placing},
	{"backfill", placing},
	{"easy", nil},
	{"sjf", nil},
	{"las", []parameter{minRun}},
	{"spread", nil},
	{"fitgpp", slices.Concat(scoring, placing, []parameter{capped})},
	{"lrtp", slices.Concat(scoring, placing)},
	{"rand", slices.Concat(scoring, placing)},
	{"elastic", slices.Concat(reserving, resting, []parameter{gain})},
	{"static", nil},
	{"dragon", nil},
}

// simulated are the policies that have to be told how long jobs run.
var simulated = []string{"srtf"}

// common are the parameters that do not depend on the policy.
var common = []parameter{
	{"max_launch_failures", "int", "after so many failed launches a job is given up", count(1, maxLaunchFails),
		number(maxLaunchFails)},
	{"max_requeues", "int", "after so many requests of a job to be started again it is held",
		count(0, maxRequeues), number(maxRequeues)},
	{"max_node_losses", "int", "after so many lost nodes a job is given up", count(0, maxNodeLosses),
		number(maxNodeLosses)},
}

// reserving are the parameters of policies that reserve capacity for a blocked queue head.
var reserving = []parameter{
	{"reserve_after", "duration", "how long the queue head waits before capacity is reserved for it",
		lasting(0, reserveAfter),
		always(reserveAfter)},
	{"reserve_hold", "duration", "how long the reserved capacity is kept", lasting(1, reserveHold), always(reserveHold)},
	{"max_bypass", "int", "after so many other jobs have started past the queue head, capacity is reserved for it",
		count(0, maxBypass),
		number(maxBypass)},
}

// scoring are the parameters of which jobs are preempted.
var scoring = []parameter{
	{"s", "number", "weight of a victim's grace period relative to its size", graceWeight,
		func(p *cluster.Policy) string { return fraction(p.GraceWeight) }},
	{"p", "int", "how often a job may be preempted (policy rota: within a day), or \"inf\"", maxPreempts,
		func(p *cluster.Policy) string { return orWord(int64(p.MaxPreempts), `"inf"`) }},
}

// making are the parameters of how policy rota preempts.
var making = slices.Concat(scoring, []parameter{
	minRuntime,
	{"min_turn", "duration", "how long a job runs before one with less attained service replaces it, or \"never\"",
		minTurn, minTurnText},
	{"headroom", "int", "most GPUs that are kept free for trial-and-error jobs, in thousandths of all GPUs",
		orNone(headroom),
		func(p *cluster.Policy) string { return orWord(p.HeadroomPM, "0") }},
	{"te_borrow", "int", "thousandths of an account's quota that it lends to trial-and-error jobs of other accounts",
		orNone(teBorrow), func(p *cluster.Policy) string { return orWord(p.TEBorrowPM, "0") }},
	{"te_account_gpus", "int", "GPUs that trial-and-error jobs of one account may hold at once, instead of " +
		"te_account_share",
		count(1, teAccountGPUs),
		func(p *cluster.Policy) string { return orWord(p.TEAccountGPUs, "") }},
	{"te_account_share", "int", "thousandths of the cluster that trial-and-error jobs of one account may hold at once",
		orNone(teAccountPM),
		func(p *cluster.Policy) string { return orWord(p.TEAccountPM, "0") }},
	{"te_user_share", "int", "thousandths of the cluster that trial-and-error jobs of one user may hold at once",
		orNone(teUserPM),
		func(p *cluster.Policy) string { return orWord(p.TEUserPM, "0") }},
})

// tuning are the tunables of policy rota.
func tuning() (list []parameter) {
	for _, t := range cluster.Tunables() {
		list = append(list, parameter{t.Name, "int", t.Does + ": " + t.Unit + "; 0: off", orOff(t.Field),
			func(p *cluster.Policy) string { return orWord(*t.Field(p), "0") }})
	}
	return list
}

// sharing are the parameters of policies that share by the quotas of accounts and users.
var sharing = []parameter{
	minRuntime,
	{"half_life", "duration", "time after which past usage counts half", lasting(0, halfLife), span(halfLife)},
	{"usage_influence", "number", "how strongly past usage counts in the division of spare capacity", influence,
		func(p *cluster.Policy) string { return fraction(int64(p.UsageInfluence)) }},
}

// placing are the parameters of policies that can be told where to put single workers.
var placing = []parameter{
	{"fit", "string", "first, best, worst, random or frag", placement,
		func(p *cluster.Policy) string { return quoted(p.Placement) }},
	{"seed", "int", "of random choices", seed,
		func(p *cluster.Policy) string { return strings.TrimPrefix(strconv.FormatUint(p.Seed, 10), "0") }},
}

var (
	minRuntime = parameter{"min_runtime", "duration", "jobs that have run for less are displaced only if no others can be",
		lasting(1, minRuntimeMS), span(minRuntimeMS)}
	minRun = parameter{"min_run", "duration", "jobs that have run for less are not displaced",
		lasting(0, minRunMS), span(minRunMS)}
	capped = parameter{"random_obeys_p", "bool", "false: victims chosen at random may be preempted more often than p " +
		"allows", randomObeysP,
		randomObeysPText}
)

// Fields of what is replicated.
func maxLaunchFails(p *cluster.Policy) *int  { return &p.MaxLaunchFails }
func maxRequeues(p *cluster.Policy) *int     { return &p.MaxRequeues }
func maxNodeLosses(p *cluster.Policy) *int   { return &p.MaxNodeLosses }
func maxBypass(p *cluster.Policy) *int       { return &p.MaxBypass }
func reserveAfter(p *cluster.Policy) *int64  { return &p.ReserveAfterMS }
func reserveHold(p *cluster.Policy) *int64   { return &p.ReserveHoldMS }
func minRuntimeMS(p *cluster.Policy) *int64  { return &p.MinRuntimeMS }
func minRunMS(p *cluster.Policy) *int64      { return &p.MinRunMS }
func minTurnMS(p *cluster.Policy) *int64     { return &p.MinTurnMS }
func halfLife(p *cluster.Policy) *int64      { return &p.HalfLifeMS }
func headroom(p *cluster.Policy) *int64      { return &p.HeadroomPM }
func teBorrow(p *cluster.Policy) *int64      { return &p.TEBorrowPM }
func teAccountGPUs(p *cluster.Policy) *int64 { return &p.TEAccountGPUs }
func teAccountPM(p *cluster.Policy) *int64   { return &p.TEAccountPM }
func teUserPM(p *cluster.Policy) *int64      { return &p.TEUserPM }

// Block implements [hclfile.Described]. A parameter that the policy does not have is refused by
// check, which knows its name.
func (*Policy) Block() *hclfile.Block {
	b := &hclfile.Block{Tells: true, Attrs: []hclfile.Attr{hclfile.Text("name", "string", (*Policy).setName)}}
	for _, p := range allParameters() {
		b.Attrs = append(b.Attrs, hclfile.Text(p.name, p.typ, func(target *Policy, text string, _ hclfile.Source) error {
			return target.write(p, text)
		}).With("", p.doc))
	}
	return b
}

func (p *Policy) setName(name string, _ hclfile.Source) error {
	if p.Name != "" {
		return fmt.Errorf("the label of the block already names policy %q; leave this out", p.Name)
	}
	p.Name = name
	return nil
}

// write keeps a parameter, to be set over the policy's default.
func (p *Policy) write(param parameter, text string) error {
	if err := param.set(&cluster.Policy{}, text); err != nil {
		return err
	}
	// it has just been accepted
	p.written = append(p.written, written{param.name, func(base *cluster.Policy) { _ = param.set(base, text) }})
	return nil
}

// allParameters lists every parameter once, by name.
func allParameters() []parameter {
	all := slices.Concat(common)
	for _, row := range policyRows {
		all = append(all, row.params...)
	}
	slices.SortFunc(all, func(a, b parameter) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(all, func(a, b parameter) bool { return a.name == b.name })
}

// Policies lists the policies that a cluster's file may name. Some are only for clusters that have
// had them since an earlier version.
func Policies() []string {
	names := make([]string, len(policyRows))
	for i := range policyRows {
		names[i] = policyRows[i].name
	}
	return names
}

// Parameters lists the parameters that the block of a policy may have, nil if there is no such
// policy. Without a name it lists those of the policy that a cluster has, whichever that is.
func Parameters(policy string) []string {
	params := reserving
	if policy != "" {
		i := slices.IndexFunc(policyRows, func(r policyRow) bool { return r.name == policy })
		if i < 0 {
			return nil
		}
		params = policyRows[i].params
	}
	var names []string
	for _, p := range slices.Concat(params, common) {
		names = append(names, p.name)
	}
	slices.Sort(names)
	return names
}

// check reports an unknown policy, and parameters that the policy does not have: none is ignored.
func (p *Policy) check(bad func(path, text, hint string)) {
	known := Parameters(p.Name)
	switch {
	case slices.Contains(simulated, p.Name):
		bad("policy.name", fmt.Sprintf("policy %q needs to know how long jobs will run: only rota sim can run it", p.Name),
			"there are "+strings.Join(cluster.Policies, ", "))
		return
	case known == nil:
		bad("policy.name", fmt.Sprintf("unknown policy %q", p.Name), "there are "+strings.Join(cluster.Policies,
			", "))
		return
	}
	p.checkTogether(bad)
	for _, w := range p.written {
		switch {
		case slices.Contains(known, w.name):
		case p.Name == "":
			bad("policy."+w.name, w.name+" applies to some policies only", "name the policy: policy \"rota\" { ... }")
		default:
			bad("policy."+w.name, fmt.Sprintf("policy %q has no %s", p.Name, w.name), "it has "+strings.Join(known, ", "))
		}
	}
}

// checkTogether reports parameters of which one takes the meaning from another.
func (p *Policy) checkTogether(bad func(path, text, hint string)) {
	var set cluster.Policy
	wrote := map[string]bool{}
	for _, w := range p.written {
		w.over(&set)
		wrote[w.name] = true
	}
	for _, name := range []string{"grow_after", "cooldown"} {
		if set.Rigid && wrote[name] {
			bad("policy."+name, fmt.Sprintf("with elastic = false, %s has no effect: elastic jobs keep their minimum of workers",
				name), "leave out one of the two")
		}
	}
	if wrote["random_obeys_p"] && !set.RandomUncapped && set.MaxPreempts < 0 {
		bad("policy.random_obeys_p", `random_obeys_p has no meaning with p = "inf", which is no limit`,
			"leave out one of the two")
	}
}

// over is the policy to be replicated, over what a new cluster has.
func (p *Policy) over(base cluster.Policy) cluster.Policy {
	base.Name = p.Name
	for _, w := range p.written {
		w.over(&base)
	}
	return base
}
