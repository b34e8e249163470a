package choose

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// text writes shares as NODE:TASKS/CORES/GPUS, with the memory in GiB behind them if it is limited.
func text(shares []Share) string {
	var parts []string
	for _, s := range shares {
		t := fmt.Sprintf("%d:%v/%v/%v", s.Place, s.Tasks, s.Cores, s.GPUs)
		if s.Memory > 0 {
			t += fmt.Sprintf("/%dG", s.Memory/jobspec.GiB)
		}
		parts = append(parts, t)
	}
	return strings.Join(parts, " ")
}

// TestChoice notices a step that gets other nodes, tasks, cores or GPUs than Slurm gives it, that
// waits for what is free, or that is refused although it only has to wait.
func TestChoice(t *testing.T) {
	two := Allocation{TasksPerNode: 2, CoresPerTask: 2, Places: []NodePart{
		{"a", 4, 8 * jobspec.GiB, 2}, {"b", 4, 8 * jobspec.GiB, 2}}}
	one := Allocation{TasksPerNode: 4, CoresPerTask: 1, Places: []NodePart{{"a", 4, 8 * jobspec.GiB, 4}}}
	uneven := Allocation{TasksPerNode: 1, Places: []NodePart{{"a", 2, 0, 0}, {"b", 2, 0, 0}, {"c", 4, 0, 0}}}
	busy := []Share{{Place: 0, Cores: []int{0, 1}, GPUs: []int{0}, Memory: 6 * jobspec.GiB}}
	for name, c := range map[string]struct {
		job  Allocation
		req  api.StepRequest
		held []Share
		want string
		err  error
	}{
		"all of the job": {job: two, want: "0:[0 1]/[0 1 2 3]/[0 1] 1:[2 3]/[0 1 2 3]/[0 1]"},
		"one task takes one node whole": {job: two, req: api.StepRequest{Tasks: 1},
			want: "0:[0]/[0 1 2 3]/[0 1]"},
		"exactly its cores": {job: two, req: api.StepRequest{Tasks: 1, Exact: true}, want: "0:[0]/[0 1]/[0 1]"},
		"cyclic": {job: two, req: api.StepRequest{Cyclic: true, GPUs: -1},
			want: "0:[0 2]/[0 1 2 3]/[] 1:[1 3]/[0 1 2 3]/[]"},
		"a node by number": {job: two, req: api.StepRequest{Nodes: 1, Relative: 1, Tasks: 1},
			want: "1:[0]/[0 1 2 3]/[0 1]"},
		"a node by name": {job: two, req: api.StepRequest{NodeList: []string{"b"}}, want: "1:[0 1]/[0 1 2 3]/[0 1]"},
		"a name and one more": {job: two, req: api.StepRequest{NodeList: []string{"b"}, Nodes: 2},
			want: "0:[0 1]/[0 1 2 3]/[0 1] 1:[2 3]/[0 1 2 3]/[0 1]"},
		"without a node": {job: two, req: api.StepRequest{Exclude: []string{"a"}},
			want: "1:[0 1]/[0 1 2 3]/[0 1]"},
		"a node that is not the job's": {job: two, req: api.StepRequest{NodeList: []string{"c"}}, err: NoSuchNodes},
		"more nodes than the job has":  {job: two, req: api.StepRequest{Nodes: 3}, err: NoSuchNodes},
		"fewer tasks than nodes": {job: two, req: api.StepRequest{Nodes: 2, Tasks: 1},
			want: "0:[0]/[0 1 2 3]/[0 1]"},
		"more tasks than the job's, with fewer cores": {job: two, req: api.StepRequest{Tasks: 8, GPUs: -1},
			want: "0:[0 1 2 3]/[0 1 2 3]/[] 1:[4 5 6 7]/[0 1 2 3]/[]"},
		"more tasks than cores, which share them": {job: two, req: api.StepRequest{Tasks: 9, Overcommit: true, GPUs: -1},
			want: "0:[0 1 2 3 4]/[0 1 2 3]/[] 1:[5 6 7 8]/[0 1 2 3]/[]"},
		"some cores for more tasks": {job: two, held: busy, want: "0:[0 1 2]/[2 3]/[]",
			req: api.StepRequest{Nodes: 1, NodeList: []string{"a"}, Tasks: 3, Exact: true, Overcommit: true, GPUs: -1}},
		"cores of tasks are never more than there are": {job: two, want: "0:[0]/[0 1 2 3]/[]",
			req: api.StepRequest{Tasks: 1, CoresPerTask: 9, Exact: true, Overcommit: true, GPUs: -1}},
		"cores for each GPU": {job: two, req: api.StepRequest{GPUsPerNode: 1, CoresPerGPU: 2},
			want: "0:[0 1]/[0 1]/[0] 1:[2 3]/[0 1]/[0]"},
		"cores for each GPU of a task": {job: one, req: api.StepRequest{Tasks: 2, GPUsPerTask: 1, CoresPerGPU: 2},
			want: "0:[0 1]/[0 1 2 3]/[0 1]"},
		"fewer cores for its GPUs than tasks": {job: two, err: TooManyTasks,
			req: api.StepRequest{Tasks: 6, GPUs: 2, CoresPerGPU: 1}},
		"more cores for its GPUs than there are": {job: two, req: api.StepRequest{CoresPerGPU: 3}, err: TooManyTasks},
		"cores for no GPU": {job: two, err: TooManyTasks,
			req: api.StepRequest{CoresPerGPU: 3, GPUs: -1}},
		"more tasks than cores":    {job: two, req: api.StepRequest{Tasks: 9}, err: TooManyTasks},
		"more cores than a node's": {job: two, req: api.StepRequest{CoresPerTask: 5}, err: TooManyTasks},
		"tasks by node": {job: two, req: api.StepRequest{Tasks: 1, TasksPerNode: 1},
			want: "0:[0]/[0 1 2 3]/[0 1]"},
		"more memory than a node's": {job: two, req: api.StepRequest{Memory: 9 * jobspec.GiB}, err: TooMuchMemory},
		"more GPUs than the job's":  {job: two, req: api.StepRequest{GPUs: 5}, err: TooManyGPUs},
		"GPUs on all nodes": {job: two, req: api.StepRequest{GPUs: 3},
			want: "0:[0 1]/[0 1 2 3]/[0 1] 1:[2 3]/[0 1 2 3]/[0]"},
		"GPUs by task": {job: one, req: api.StepRequest{Tasks: 2, GPUsPerTask: 2},
			want: "0:[0 1]/[0 1 2 3]/[0 1 2 3]"},
		"more GPUs by task than here": {job: one, req: api.StepRequest{Tasks: 3, GPUsPerTask: 2}, err: TooManyTasks},
		"memory by core": {job: one, req: api.StepRequest{Tasks: 2, Exact: true, MemoryPerCore: jobspec.GiB, GPUs: 1},
			want: "0:[0 1]/[0 1]/[0]/2G"},
		"the other node is free": {job: two, held: busy, req: api.StepRequest{Tasks: 1}, want: "1:[0]/[0 1 2 3]/[0 1]"},
		"its node is not free":   {job: two, held: busy, req: api.StepRequest{NodeList: []string{"a"}}, err: Busy},
		"there is room beside others": {job: two, held: busy,
			req:  api.StepRequest{NodeList: []string{"a"}, Tasks: 1, Exact: true, GPUs: 1},
			want: "0:[0]/[2 3]/[1]"},
		"no room for its memory": {job: two, held: busy,
			req: api.StepRequest{NodeList: []string{"a"}, Tasks: 1, Exact: true, GPUs: 1, Memory: 3 * jobspec.GiB}, err: Busy},
		"no room for its GPUs": {job: two, held: busy,
			req: api.StepRequest{NodeList: []string{"a"}, Tasks: 1, Exact: true}, err: Busy},
		"it shares what others hold": {job: two, held: busy, req: api.StepRequest{Overlap: true, NodeList: []string{"a"}},
			want: "0:[0 1]/[0 1 2 3]/[0 1]"},
		"as in Slurm's manual": {job: uneven, req: api.StepRequest{Tasks: 4},
			want: "0:[0 1]/[0 1]/[] 1:[2]/[0 1]/[] 2:[3]/[0 1 2 3]/[]"},
		"the largest node": {job: uneven, req: api.StepRequest{Nodes: 1, Tasks: 4},
			want: "2:[0 1 2 3]/[0 1 2 3]/[]"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := choose(&c.req, c.job, c.held)
			if !errors.Is(err, c.err) || text(got) != c.want {
				t.Errorf("got %s, %v; want %s, %v", text(got), err, c.want, c.err)
			}
		})
	}
}

// TestChoiceInGroups notices a step in groups that start together which gets what another group
// has, whose tasks are numbered twice, or that begins in one group while it has to wait in another.
func TestChoiceInGroups(t *testing.T) {
	groups := []Allocation{
		{TasksPerNode: 1, CoresPerTask: 2, Places: []NodePart{{"a", 2, 8 * jobspec.GiB, 0}}},
		{First: 1}, // whose launch type is another one
		{First: 3, TasksPerNode: 2, CoresPerTask: 1, Places: []NodePart{{"a", 2, jobspec.GiB, 1}, {"b", 2, jobspec.GiB, 1}}},
	}
	held := []Share{{Place: 4, Cores: []int{0, 1}, GPUs: []int{0}}}
	for name, c := range map[string]struct {
		req   api.StepRequest
		held  []Share
		want  string
		parts string
		err   string
	}{
		"the first group":    {held: held, want: "0:[0]/[0 1]/[]", parts: "[1]"},
		"another one":        {req: api.StepRequest{Group: 2}, want: "3:[0 1]/[0 1]/[0] 4:[2 3]/[0 1]/[0]", parts: "[2]"},
		"what is free of it": {req: api.StepRequest{Group: 2, Tasks: 1}, held: held, want: "3:[0]/[0 1]/[0]", parts: "[1]"},
		"two groups": {req: api.StepRequest{More: []api.StepRequest{{Group: 2}}},
			want: "0:[0]/[0 1]/[] 3:[1 2]/[0 1]/[0] 4:[3 4]/[0 1]/[0]", parts: "[1 2]"},
		"in another order": {req: api.StepRequest{Group: 2, Tasks: 1, More: []api.StepRequest{{Exact: true}}},
			want: "3:[0]/[0 1]/[0] 0:[1]/[0 1]/[]", parts: "[1 1]"},
		"one is busy": {req: api.StepRequest{More: []api.StepRequest{{Group: 2}}}, held: held, err: string(Busy)},
		"it shares in both": {req: api.StepRequest{Overlap: true, More: []api.StepRequest{{Group: 2}}}, held: held,
			want: "0:[0]/[0 1]/[] 3:[1 2]/[0 1]/[0] 4:[3 4]/[0 1]/[0]", parts: "[1 2]"},
		"one is too small": {req: api.StepRequest{More: []api.StepRequest{{Group: 2, Nodes: 3}}}, held: held,
			err: string(NoSuchNodes)},
		"no such group": {req: api.StepRequest{Group: 3},
			err: "Attempt to run a job step with het group value of 3, but the job allocation has maximum value of 2"},
		"a group without steps": {req: api.StepRequest{More: []api.StepRequest{{Group: 1}}},
			err: "group 1 of the job runs no steps: its launch type is not steps"},
		"a task without a program": {req: api.StepRequest{Programs: []api.StepProgram{{Argv: []string{"x"}}},
			More: []api.StepRequest{{Group: 2, Programs: []api.StepProgram{{Tasks: []int{0}, Argv: []string{"y"}}}}}},
			err: "task 1 has no program"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.req.Programs == nil {
				c.req.Programs = []api.StepProgram{{Argv: []string{"x"}}}
				for i := range c.req.More {
					c.req.More[i].Programs = c.req.Programs
				}
			}
			got, parts, err := All(&c.req, groups, c.held)
			if why := fmt.Sprint(err); c.err == "" && err != nil || c.err != "" && why != c.err {
				t.Fatalf("got %s, want %s", why, c.err)
			}
			if err == nil && (text(got) != c.want || fmt.Sprint(parts) != c.parts) {
				t.Errorf("got %s in %v, want %s in %s", text(got), parts, c.want, c.parts)
			}
		})
	}
}

// TestSharesOfStepsAreTheirOwn notices two steps side by side that have the same core, GPU or
// memory, and a task that a step has twice or not at all.
func TestSharesOfStepsAreTheirOwn(t *testing.T) {
	job := Allocation{TasksPerNode: 2, CoresPerTask: 1, Places: []NodePart{{"a", 6, 6, 3}, {"b", 4, 4, 0}, {"c", 5, 5, 2}}}
	for nodes := range 4 {
		for tasks := range 9 {
			for gpus := -1; gpus < 4; gpus++ {
				req := &api.StepRequest{Nodes: nodes, Tasks: tasks, GPUs: gpus, Exact: true, MemoryPerCore: 1, Cyclic: tasks%2 == 1}
				var held []Share
				for {
					got, err := choose(req, job, held)
					if err != nil {
						break
					}
					all := 0
					seen := map[int]bool{}
					for _, s := range got {
						for _, n := range s.Tasks {
							seen[n] = true
						}
						all += len(s.Tasks)
					}
					if len(seen) != all || tasks > 0 && all != tasks {
						t.Fatalf("%+v: %s", req, text(got))
					}
					held = append(held, got...)
				}
				for i, p := range job.Places {
					r := newRoom(p)
					n, m, mem := 0, 0, jobspec.Bytes(0)
					for _, h := range held {
						if h.Place == i {
							r.take(h)
							n, m, mem = n+len(h.Cores), m+len(h.GPUs), mem+h.Memory
						}
					}
					if len(r.cores) != p.Cores-n || len(r.gpus) != p.GPUs-m || mem > p.Memory {
						t.Fatalf("%+v: place %d: %s", req, i, text(held))
					}
				}
			}
		}
	}
}
