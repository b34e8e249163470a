package shim

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
func randomTasks(r *rand.Rand) ([]*taskState, string) {
	list := []*taskState{{Task: container.Task{Name: "main"}}}
	for i := range r.IntN(7) {
		t := container.Task{Name: fmt.Sprint("t", i),
			Hook: []string{"", "prestart", "poststart", "poststop"}[r.IntN(4)], Leader: r.IntN(3) == 0}
		t.Sidecar = t.Hook != "" && t.Hook != "poststop" && r.IntN(2) == 0
		list = append(list, &taskState{Task: t})
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for i := range list {
		list[i].state = container.Created
	}
	return list, []string{"", "all", "leader", "any"}[r.IntN(4)]
}

// history plays one worker to its end.
type history struct {
	t    *testing.T
	seed uint64
	r    *rand.Rand
	list []*taskState
	workerPhase
}

func (h *history) bad(format string, args ...any) {
	h.t.Helper()
	var list []taskState
	for _, t := range h.list {
		list = append(list, *t)
	}
	h.t.Fatalf("seed %d: %s\n%+v %+v", h.seed, fmt.Sprintf(format, args...), h.workerPhase, list)
}

func (h *history) any(which func(*taskState) bool) bool { return slices.ContainsFunc(h.list, which) }

func (h *history) begin(i int) {
	t := h.list[i]
	if t.state != container.Created || h.noMoreStarts || h.stopping && t.Hook != "poststop" {
		h.bad("%s begins", t.Name)
	}
	unready := func(o *taskState) bool {
		return o.endsByItself("prestart") && (o.state != container.Exited || !o.succeeded())
	}
	switch {
	case (t.isMain() || t.Hook == "poststart") && h.any(unready):
		h.bad("%s begins before it is set up", t.Name)
	case t.Hook == "poststop" && h.any(func(o *taskState) bool { return o.state == container.Running }):
		h.bad("%s begins while something runs", t.Name)
	case t.endsByItself("prestart") && h.any(func(o *taskState) bool {
		return o.endsByItself("prestart") &&
			o.state == container.Running
	}):
		h.bad("two set up at once")
	}
	t.state = container.Running
}

// step does what nextActions says, and reports whether that is the end.
func (h *history) step() bool {
	m := nextActions(h.list, h.workerPhase)
	for _, i := range m.stop {
		t := h.list[i]
		if t.state != container.Running || t.stoppedByOthers {
			h.bad("%s is dismissed", t.Name)
		}
		if t.Sidecar && h.any(func(o *taskState) bool { return o.isMain() && o.state == container.Running }) {
			h.bad("sidecar %s goes before the main tasks", t.Name)
		}
		t.stoppedByOthers = true
	}
	for _, i := range m.start {
		h.begin(i)
	}
	if m.done && h.any(func(o *taskState) bool { return o.state == container.Running }) {
		h.bad("it is over while something runs")
	}
	return m.done
}

// happen lets a task end, or the worker be asked to stop.
func (h *history) happen() {
	if h.r.IntN(20) == 0 {
		h.stopping = true
	}
	if h.r.IntN(40) == 0 {
		h.noMoreStarts = true
	}
	var open []int
	for i := range h.list {
		t := h.list[i]
		forever := t.Sidecar && !t.stoppedByOthers && !h.noMoreStarts
		if t.state == container.Running && !forever {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		h.bad("nothing is left that could end, and it is not over")
	}
	t := h.list[open[h.r.IntN(len(open))]]
	t.state, t.exit = container.Exited, container.Exit{Code: max(0, h.r.IntN(5)-2)}
}

func TestNextActionsOnRandomHistories(t *testing.T) {
	for run := range 5000 {
		seed := rand.Uint64()
		if *seedFlag != 0 {
			seed = *seedFlag
		}
		h := &history{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 0))}
		h.list, h.success = randomTasks(h.r)
		for steps := 0; !h.step(); steps++ {
			if nextActions(h.list, h.workerPhase).start == nil {
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
	exit, _ := workerExit(h.list, h.workerPhase)
	mains := slices.DeleteFunc(slices.Clone(h.list), func(m *taskState) bool { return !m.isMain() })
	well := func(m *taskState) bool { return m.state == container.Exited && m.succeeded() }
	ok := map[string]bool{
		"":    !slices.ContainsFunc(mains, func(m *taskState) bool { return !well(m) && !m.stoppedByOthers }),
		"any": slices.ContainsFunc(mains, well),
	}
	ok["all"] = ok[""]
	if leader := leaderOf(h.list); h.success == "leader" {
		ok["leader"] = well(leader) || leader.stoppedByOthers
	}
	bad := h.any(func(m *taskState) bool {
		return !m.isMain() && !m.Sidecar && m.state == container.Exited && !m.succeeded() && !m.stoppedByOthers
	})
	unbegun := slices.ContainsFunc(mains, func(m *taskState) bool { return m.state != container.Exited })
	if got := severity(exit) == 0; got && (!ok[h.success] || bad || unbegun) {
		h.bad("it ended as %+v", exit)
	} else if !got && ok[h.success] && !bad && !unbegun {
		h.bad("it did all it had to, and ended as %+v", exit)
	}
}
