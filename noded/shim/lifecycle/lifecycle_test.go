package lifecycle

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/noded/container"
)

var seedFlag = flag.Uint64("seed", 0, "run one random history of a worker's tasks: this one")

// randomTasks returns the tasks of a worker, at least one of them a main task.
func randomTasks(r *rand.Rand) ([]*TaskState, string) {
	list := []*TaskState{{Task: container.Task{Name: "main"}}}
	for i := range r.IntN(7) {
		t := container.Task{Name: fmt.Sprint("t", i),
			Hook: []string{"", "prestart", "poststart", "poststop"}[r.IntN(4)], Leader: r.IntN(3) == 0}
		t.Sidecar = t.Hook != "" && t.Hook != "poststop" && r.IntN(2) == 0
		list = append(list, &TaskState{Task: t})
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for i := range list {
		list[i].State = container.Created
	}
	return list, []string{"", "all", "leader", "any"}[r.IntN(4)]
}

// history plays one worker to its end.
type history struct {
	t    *testing.T
	seed uint64
	r    *rand.Rand
	list []*TaskState
	Phase
}

func (h *history) bad(format string, args ...any) {
	h.t.Helper()
	var list []TaskState
	for _, t := range h.list {
		list = append(list, *t)
	}
	h.t.Fatalf("seed %d: %s\n%+v %+v", h.seed, fmt.Sprintf(format, args...), h.Phase, list)
}

func (h *history) any(which func(*TaskState) bool) bool { return slices.ContainsFunc(h.list, which) }

func (h *history) begin(i int) {
	t := h.list[i]
	if t.State != container.Created || h.NoMoreStarts || h.Stopping && t.Hook != "poststop" {
		h.bad("%s begins", t.Name)
	}
	unready := func(o *TaskState) bool {
		return o.endsByItself("prestart") && (o.State != container.Exited || !o.succeeded())
	}
	switch {
	case (t.IsMain() || t.Hook == "poststart") && h.any(unready):
		h.bad("%s begins before it is set up", t.Name)
	case t.Hook == "poststop" && h.any(func(o *TaskState) bool { return o.State == container.Running }):
		h.bad("%s begins while something runs", t.Name)
	case t.endsByItself("prestart") && h.any(func(o *TaskState) bool {
		return o.endsByItself("prestart") &&
			o.State == container.Running
	}):
		h.bad("two set up at once")
	}
	t.State = container.Running
}

// step does what nextActions says, and reports whether that is the end.
func (h *history) step() bool {
	m := Next(h.list, h.Phase)
	for _, i := range m.Stop {
		t := h.list[i]
		if t.State != container.Running || t.StoppedByOthers {
			h.bad("%s is dismissed", t.Name)
		}
		if t.Sidecar && h.any(func(o *TaskState) bool { return o.IsMain() && o.State == container.Running }) {
			h.bad("sidecar %s goes before the main tasks", t.Name)
		}
		t.StoppedByOthers = true
	}
	for _, i := range m.Start {
		h.begin(i)
	}
	if m.Done && h.any(func(o *TaskState) bool { return o.State == container.Running }) {
		h.bad("it is over while something runs")
	}
	return m.Done
}

// happen lets a task end, or the worker be asked to stop.
func (h *history) happen() {
	if h.r.IntN(20) == 0 {
		h.Stopping = true
	}
	if h.r.IntN(40) == 0 {
		h.NoMoreStarts = true
	}
	var open []int
	for i := range h.list {
		t := h.list[i]
		forever := t.Sidecar && !t.StoppedByOthers && !h.NoMoreStarts
		if t.State == container.Running && !forever {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		h.bad("nothing is left that could end, and it is not over")
	}
	t := h.list[open[h.r.IntN(len(open))]]
	t.State, t.Exit = container.Exited, container.Exit{Code: max(0, h.r.IntN(5)-2)}
}

func TestNextActionsOnRandomHistories(t *testing.T) {
	for run := range 5000 {
		seed := rand.Uint64()
		if *seedFlag != 0 {
			seed = *seedFlag
		}
		h := &history{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 0))}
		h.list, h.Success = randomTasks(h.r)
		for steps := 0; !h.step(); steps++ {
			if Next(h.list, h.Phase).Start == nil {
				h.happen()
			}
			if steps > 100 {
				h.bad("it does not end")
			}
		}
		h.judge()
		if *seedFlag != 0 && run == 0 {
			return
		}
	}
}

// judge checks the exit of the worker: it succeeds only if every task did that must.
func (h *history) judge() {
	exit, _ := ExitOf(h.list, h.Phase)
	mains := slices.DeleteFunc(slices.Clone(h.list), func(m *TaskState) bool { return !m.IsMain() })
	well := func(m *TaskState) bool { return m.State == container.Exited && m.succeeded() }
	ok := map[string]bool{
		"":    !slices.ContainsFunc(mains, func(m *TaskState) bool { return !well(m) && !m.StoppedByOthers }),
		"any": slices.ContainsFunc(mains, well),
	}
	ok["all"] = ok[""]
	if leader := LeaderOf(h.list); h.Success == "leader" {
		ok["leader"] = well(leader) || leader.StoppedByOthers
	}
	bad := h.any(func(m *TaskState) bool {
		return !m.IsMain() && !m.Sidecar && m.State == container.Exited && !m.succeeded() && !m.StoppedByOthers
	})
	unbegun := slices.ContainsFunc(mains, func(m *TaskState) bool { return m.State != container.Exited })
	if got := severity(exit) == 0; got && (!ok[h.Success] || bad || unbegun) {
		h.bad("it ended as %+v", exit)
	} else if !got && ok[h.Success] && !bad && !unbegun {
		h.bad("it did all it had to, and ended as %+v", exit)
	}
}
