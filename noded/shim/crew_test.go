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

// randomCrew is a worker of some tasks, at least one of them a main one.
func randomCrew(r *rand.Rand) ([]member, string) {
	list := []member{{Task: container.Task{Name: "main"}}}
	for i := range r.IntN(7) {
		t := container.Task{Name: fmt.Sprint("t", i), Hook: []string{"", "prestart", "poststart", "poststop"}[r.IntN(4)], Leader: r.IntN(3) == 0}
		t.Sidecar = t.Hook != "" && t.Hook != "poststop" && r.IntN(2) == 0
		list = append(list, member{Task: t})
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
	list []member
	order
}

func (h *history) bad(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("seed %d: %s\n%+v %+v", h.seed, fmt.Sprintf(format, args...), h.order, h.list)
}

func (h *history) any(which func(*member) bool) bool {
	for i := range h.list {
		if which(&h.list[i]) {
			return true
		}
	}
	return false
}

func (h *history) begin(i int) {
	t := &h.list[i]
	if t.state != container.Created || h.over || h.stop && t.Hook != "poststop" {
		h.bad("%s begins", t.Name)
	}
	unready := func(o *member) bool { return o.short("prestart") && (o.state != container.Exited || !o.ok()) }
	switch {
	case (t.main() || t.Hook == "poststart") && h.any(unready):
		h.bad("%s begins before it is set up", t.Name)
	case t.Hook == "poststop" && h.any(func(o *member) bool { return o.state == container.Running }):
		h.bad("%s begins while something runs", t.Name)
	case t.short("prestart") && h.any(func(o *member) bool { return o.short("prestart") && o.state == container.Running }):
		h.bad("two set up at once")
	}
	t.state = container.Running
}

// step does what next says, and reports whether that is the end.
func (h *history) step() bool {
	m := next(h.list, h.order)
	for _, i := range m.stop {
		t := &h.list[i]
		if t.state != container.Running || t.dismissed {
			h.bad("%s is dismissed", t.Name)
		}
		if t.Sidecar && h.any(func(o *member) bool { return o.main() && o.state == container.Running }) {
			h.bad("sidecar %s goes before the main tasks", t.Name)
		}
		t.dismissed = true
	}
	for _, i := range m.start {
		h.begin(i)
	}
	if m.done && h.any(func(o *member) bool { return o.state == container.Running }) {
		h.bad("it is over while something runs")
	}
	return m.done
}

// happen lets something happen: a task ends, or the worker is asked to stop.
func (h *history) happen() {
	if h.r.IntN(20) == 0 {
		h.stop = true
	}
	if h.r.IntN(40) == 0 {
		h.over = true
	}
	var open []int
	for i := range h.list {
		t := &h.list[i]
		forever := t.Sidecar && !t.dismissed && !h.over
		if t.state == container.Running && !forever {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		h.bad("nothing is left that could end, and it is not over")
	}
	t := &h.list[open[h.r.IntN(len(open))]]
	t.state, t.exit = container.Exited, container.Exit{Code: max(0, h.r.IntN(5)-2)}
}

func TestNextOnRandomHistories(t *testing.T) {
	for run := range 5000 {
		seed := rand.Uint64()
		if *seedFlag != 0 {
			seed = *seedFlag
		}
		h := &history{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 0))}
		h.list, h.success = randomCrew(h.r)
		for steps := 0; !h.step(); steps++ {
			if next(h.list, h.order).start == nil {
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

// judge checks the sum: a worker ends well only if everything that had to did.
func (h *history) judge() {
	exit, _ := sum(h.list, h.success)
	mains := slices.DeleteFunc(slices.Clone(h.list), func(m member) bool { return !m.main() })
	well := func(m member) bool { return m.state == container.Exited && m.ok() }
	ok := map[string]bool{
		"": !slices.ContainsFunc(mains, func(m member) bool { return !well(m) && !m.dismissed }), "any": slices.ContainsFunc(mains, well),
	}
	ok["all"] = ok[""]
	if i := leaderOf(h.list); h.success == "leader" {
		ok["leader"] = well(h.list[i]) || h.list[i].dismissed
	}
	bad := h.any(func(m *member) bool {
		return !m.main() && !m.Sidecar && m.state == container.Exited && !m.ok() && !m.dismissed
	})
	unbegun := slices.ContainsFunc(mains, func(m member) bool { return m.state != container.Exited })
	if got := weight(exit) == 0; got && (!ok[h.success] || bad || unbegun) {
		h.bad("it ended as %+v", exit)
	} else if !got && ok[h.success] && !bad && !unbegun {
		h.bad("it did all it had to, and ended as %+v", exit)
	}
}
