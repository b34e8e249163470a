package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// Change is a setting that two configurations have differently. A value is "" where it is left out.
type Change struct {
	Path string // as a file has it: policy.p, account "physics".deserved.gpus
	Old  string
	New  string
}

// String writes a change on one line.
func (c Change) String() string {
	return fmt.Sprintf("%s: %s -> %s", c.Path, cmp.Or(c.Old, "(none)"), cmp.Or(c.New, "(none)"))
}

// Changes lists what a new configuration has differently, by path.
func Changes(before, after *cluster.Config) []Change {
	old, next := settings(before), settings(after)
	paths := map[string]bool{}
	for path := range old {
		paths[path] = true
	}
	for path := range next {
		paths[path] = true
	}
	var list []Change
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if old[path] != next[path] {
			list = append(list, Change{path, old[path], next[path]})
		}
	}
	return list
}

// values are the settings of a configuration by their paths.
type values map[string]string

func (v values) set(path, text string) {
	if text != "" {
		v[path] = text
	}
}

func (v values) setNames(path string, names []string) {
	if len(names) > 0 {
		v[path] = fmt.Sprintf("%q", names)
	}
}

func (v values) setNumber(path string, n int64) {
	if n != 0 {
		v[path] = strconv.FormatInt(n, 10)
	}
}

func (v values) setSeconds(path string, s jobspec.Seconds) {
	if s != 0 {
		v[path] = durationText(int64(s) * 1000)
	}
}

func (v values) setBytes(path string, b jobspec.Bytes) {
	if b != 0 {
		v[path] = b.String()
	}
}

// settings flattens a configuration.
func settings(c *cluster.Config) values {
	v := values{}
	v.set("cluster.name", c.ClusterName)
	v.setNumber("limits.max_submit_jobs", int64(c.MaxSubmitJobs))
	v.setNumber("limits.max_requests", int64(c.MaxRequests))
	v.setNumber("limits.max_reads", int64(c.MaxReads))
	v.setNumber("limits.max_processor", int64(c.MaxProcessor))
	v.setBytes("limits.max_spec_bytes", c.MaxSpecBytes)
	v.setBytes("limits.max_all_spec_bytes", c.MaxAllSpecBytes)
	v.setSeconds("history.keep", c.HistoryKeep)
	v.set("lease.duration", durationText(c.LeaseMS))
	v.set("lease.margin", durationText(c.MarginMS))
	v.set("lease.node_down", durationText(c.NodeDownMS))
	v.setNames("operators", c.Operators)
	v.setNames("admins", c.Admins)
	v.setNames("private", c.Private)
	if c.NoNewAccounts {
		v.set("accounts.create", "false")
	}
	for name, q := range c.Queues {
		v.queue(fmt.Sprintf("queue %q", name), q)
	}
	v.set("policy.name", quoted(c.Policy.Name))
	for _, p := range allParameters() {
		v.set("policy."+p.name, p.text(&c.Policy))
	}
	for name, n := range c.Licenses {
		v.set(fmt.Sprintf("license %q.count", name), strconv.Itoa(n))
	}
	v.quota("capacity", c.Capacity)
	for name, u := range c.Users {
		path := fmt.Sprintf("user %q", name)
		v.set(path+".default_account", quoted(u.DefaultAccount))
		v.limit(path+".limit", u.Limit)
	}
	for name, a := range c.Accounts {
		path := fmt.Sprintf("account %q", name)
		v.set(path, "there")
		v.set(path+".parent", quoted(a.Parent))
		v.setNames(path+".coordinators", a.Coordinators)
		v.setNames(path+".users and groups", a.Members)
		v.terms(path, a.Terms)
		v.sharing(path, a.Sharing)
		for user, t := range a.Users {
			of := fmt.Sprintf("%s.user %q", path, user)
			v.set(of, "there")
			v.terms(of, t)
		}
	}
	return v
}

func (v values) queue(path string, q cluster.Queue) {
	v.set(path, "there")
	v.set(path+".default_class", quoted(string(q.DefaultClass)))
	v.setSeconds(path+".default_time", q.DefaultTime)
	v.setSeconds(path+".max_time", q.MaxTime)
	v.setSeconds(path+".te_max_time", q.TEMaxTime)
	v.setNumber(path+".te_max_gpus", int64(q.TEMaxGPUs))
	v.setSeconds(path+".max_grace", q.MaxGrace)
	if q.MaxRequeues != nil {
		v.set(path+".max_requeues", strconv.Itoa(*q.MaxRequeues))
	}
	v.set(path+".on_node_lost", quoted(q.OnNodeLost.String()))
	v.setNames(path+".aliases", q.Aliases)
	v.setNames(path+".accounts", q.Accounts)
	v.setNames(path+".nodes", q.Nodes)
	for key, value := range q.Labels {
		v.set(fmt.Sprintf("%s.labels[%q]", path, key), quoted(value))
	}
	v.limit(path+".limit", q.Limit)
	for user, l := range q.Users {
		v.limit(fmt.Sprintf("%s.user %q.limit", path, user), l)
	}
	v.sharing(path, q.Sharing)
}

func (v values) sharing(path string, s cluster.Sharing) {
	v.setNumber(path+".oversubscribe", int64(s.Oversubscribe))
	if s.Pack {
		v.set(path+".pack", "true")
	}
	if s.Migrate {
		v.set(path+".migrate", "true")
	}
}

func (v values) terms(path string, t cluster.Terms) {
	v.setNumber(path+".weight", int64(t.Weight))
	v.quota(path+".deserved", t.Deserved)
	v.limit(path+".limit", t.Limit)
}

func (v values) limit(path string, l *cluster.Limit) {
	if l == nil {
		return
	}
	v.quota(path, &l.Quota)
	for name, n := range map[string]*int64{"running": l.Running, "submitted": l.Submitted, "gpu_minutes": l.GPUMinutes,
		"nodes": l.Nodes} {
		if n != nil {
			v[path+"."+name] = strconv.FormatInt(*n, 10)
		}
	}
	v.setSeconds(path+".max_time", l.MaxTime)
}

func (v values) quota(path string, q *cluster.Quota) {
	if q == nil {
		return
	}
	amount := func(name string, n *int64, unit int64) {
		if n != nil {
			v[path+"."+name] = strings.TrimSuffix(strconv.FormatFloat(float64(*n)/float64(unit), 'f', -1, 64), ".0")
		}
	}
	amount("gpus", q.GPUs, model.WholeGPU)
	amount("cores", q.Cores, 1)
	if q.Memory != nil {
		v[path+".memory"] = q.Memory.String()
	}
	for name, n := range q.Models {
		amount(fmt.Sprintf("models[%q]", name), &n, model.WholeGPU)
	}
}

// CheckReplicated refuses a configuration that no file can describe: a policy that a cluster cannot
// have, or parameters that its policy does not. Files are checked where they are read, with their
// lines; this is for what comes without one.
func CheckReplicated(c *cluster.Config) error {
	p := &c.Policy
	known := Parameters(p.Name)
	if known == nil {
		return fmt.Errorf("unknown policy %q: the policies are %s", p.Name,
			strings.Join(cluster.Policies, ", "))
	}
	base := cluster.DefaultConfig().Policy
	for _, param := range allParameters() {
		if text := param.text(p); text != param.text(&base) && !slices.Contains(known, param.name) {
			return fmt.Errorf("policy %q has no parameter %s: it has %s", p.Name, param.name, strings.Join(known, ", "))
		}
	}
	lease, down := time.Duration(c.LeaseMS)*time.Millisecond, time.Duration(c.NodeDownMS)*time.Millisecond
	if lease <= down || lease < leastSpan || down < leastSpan {
		return fmt.Errorf("the lease (%v) must be longer than node_down (%v), and neither may be shorter than %v", lease,
			down, leastSpan)
	}
	return nil
}
