package present

import (
	"net"
	"slices"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// Alloc is one worker as its node needs to know it.
func Alloc(v *state.View, w state.DesiredWorker) api.Alloc {
	j, a := w.Job, w.Job.Live()
	part, number := j.PartOf(w.Worker)
	out := api.Alloc{
		Job: j.ID, Attempt: a.N, Worker: w.Worker, Joined: a.Workers[w.Worker].Joined, GPUs: a.Workers[w.Worker].GPUs,
		Request:  j.Granted(a, w.Worker),
		Released: a.Released, Stop: a.StopOf(w.Worker), Began: a.Workers[w.Worker].State == model.WorkerRunning,
		Limit: j.Limit, Owner: j.Owner, Spec: j.FullSpec(), Account: j.Account, Queue: j.Queue, Class: j.Class,
		Nodes:      nodesOfPart(j, a, part),
		Members:    membersOf(v, a),
		MasterAddr: hostOf(v, a.Workers[0].Node), MasterPort: a.MasterPort, Restarts: a.N - 1, Start: a.Assigned.Wall,
		Cluster: v.Config().ClusterName, LeaseGrace: leaseGrace(v.Config()), NoLease: a.Waits,
		Group: j.GroupOf(w.Worker), GroupWorker: number, Record: j.Parent, Port: a.Workers[w.Worker].Port,
	}
	if s := a.Switch; s != nil && s.Number > 0 {
		out.Switch = &api.Switch{Number: s.Number, Pause: s.Number%2 == 1, Cause: s.Cause}
	}
	if a.Early != 0 {
		signal, _ := lifecycle.StopSignalAndGrace(j.Spec, j.GroupSpec(), model.CauseRequeue)
		out.Early = &api.Early{Limit: j.EndsAt(a), Signal: signal}
	}
	if a.Packed() {
		out.Packing = &api.Packing{Share: a.Packing.Share, Number: a.Packing.Number}
	}
	if j.Spec.Array != nil && j.Parent != 0 {
		place := taskPlace(j)
		place.Size = j.Spec.Array.Len()
		out.Array, out.Spec = &place, withoutOtherTasks(out.Spec)
	}
	out.Spec = withGrant(out.Spec, out.Group, j.RequestOf(w.Worker).Active, out.Request.Active)
	out.Submitted, out.Checkpoint = j.Submitted.Wall, Checkpoint(v, j, w.Worker)
	for i := range j.Parts {
		out.Hosts = append(out.Hosts, hostsOf(v, j, a, i))
	}
	return out
}

// withoutOtherTasks leaves out of an array what only its other tasks need. It may be megabytes, and
// each node gets it with each task.
func withoutOtherTasks(spec *jobspec.Job) *jobspec.Job {
	out, array := *spec, *spec.Array
	array.Matrix, array.Columns, array.Rows = nil, nil, nil
	out.Array = &array
	return &out
}

// withGrant returns a specification in which the leading task of a group has what the worker was
// granted beyond what it asks for. Half of the task's memory stays half of it.
func withGrant(spec *jobspec.Job, group int, asked, granted model.Vector) *jobspec.Job {
	g := &spec.Groups[group]
	leader := slices.IndexFunc(g.Tasks, func(t jobspec.Task) bool { return t.Leader != nil && *t.Leader })
	if asked == granted || leader < 0 {
		return spec
	}
	out := *spec
	out.Groups = slices.Clone(spec.Groups)
	g = &out.Groups[group]
	g.Tasks = slices.Clone(g.Tasks)
	r := &g.Tasks[leader].Resources
	halfShm, halfTmp := r.Shm == r.Memory/2, r.Tmp == r.Memory/2
	r.Cores, r.Memory = r.Cores+int(granted.Cores-asked.Cores), r.Memory+granted.Memory-asked.Memory
	if halfShm {
		r.Shm = r.Memory / 2
	}
	if halfTmp {
		r.Tmp = r.Memory / 2
	}
	return &out
}

// ofPart returns the workers of one part of a gang, by number in the part; all if the gang has only
// one.
func ofPart(j *model.Job, a *model.Attempt, part int) []model.Worker {
	if len(j.Parts) == 0 {
		return a.Workers
	}
	first := firstOfPart(j, part)
	return a.Workers[first : first+j.Parts[part].Workers]
}

// firstOfPart returns the number in its attempt of the first worker of a part of a gang.
func firstOfPart(j *model.Job, part int) int {
	first := 0
	for _, p := range j.Parts[:part] {
		first += p.Workers
	}
	return first
}

func nodesOfPart(j *model.Job, a *model.Attempt, part int) []string {
	workers := ofPart(j, a, part)
	nodes := make([]string, len(workers))
	for i := range workers {
		nodes[i] = workers[i].Node
	}
	return nodes
}

// hostsOf says where the workers of one group of a gang are and at which ports they may listen.
func hostsOf(v *state.View, j *model.Job, a *model.Attempt, part int) api.GroupHosts {
	hosts := api.GroupHosts{Group: j.Spec.Groups[j.Parts[part].Group].Name, Nodes: nodesOfPart(j, a, part)}
	steps := j.Spec.Groups[j.Parts[part].Group].RunsSteps()
	for i, w := range ofPart(j, a, part) {
		hosts.Addrs = append(hosts.Addrs, hostOf(v, w.Node))
		hosts.Ports = append(hosts.Ports, w.Port)
		if steps {
			hosts.Has = append(hosts.Has, j.Granted(a, firstOfPart(j, part)+i).Active)
		}
	}
	return hosts
}

// membersOf returns the nodes of an attempt, each once, with the addresses that they have registered.
func membersOf(v *state.View, a *model.Attempt) []api.AllocNode {
	var list []api.AllocNode
	seen := map[string]bool{}
	for _, w := range a.Workers {
		if n, _ := v.Node(w.Node); n != nil && !seen[w.Node] {
			seen[w.Node] = true
			list = append(list, api.AllocNode{Name: n.Name, Addr: n.Addr, IP: n.IP})
		}
	}
	return list
}

// hostOf is the address of a node without the port of its daemon, "" if there is no such node.
func hostOf(v *state.View, name string) string {
	n, _ := v.Node(name)
	if n == nil {
		return ""
	}
	if host, _, err := net.SplitHostPort(n.Addr); err == nil {
		return host
	}
	return n.Addr
}

// leaseGrace is how long, in milliseconds, a container may take to stop once its lease has ended.
// It leaves half of the margin, after which another attempt may start.
func leaseGrace(c *cluster.Config) int64 { return max(1, min(10_000, c.MarginMS/2)) }
