package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/jobspec"
)

// Bounds of the headroom.
const (
	headroomPM    = 50     // thousandths of all GPUs that it is at most
	headroomLeast = 32_000 // thousandths of a GPU: smaller clusters have none
)

// headroom is room that best-effort jobs leave free for trial-and-error jobs to come: so many workers as those jobs usually have. It is
// counted in workers, not in GPUs, because free GPUs that are scattered, or without memory beside them, help nobody.
type headroom struct {
	worker fit.Part
	want   int
	have   int
	on     []int32 // by node: workers that would fit
}

// newHeadroom returns what is to be left free by what trial-and-error jobs have asked for lately, nil if nothing.
func newHeadroom(t *trial) *headroom {
	l := t.view.Learned()
	if l == nil || l.TE.Last == 0 || t.now-l.TE.Last > day || t.policy.HeadroomPM < 0 {
		return nil
	}
	var gpus int64
	for i, n := range t.view.Nodes() {
		if n.State == cluster.NodeUp {
			gpus += t.room.Total(i).GPUs
		}
	}
	if gpus < headroomLeast {
		return nil
	}
	part := int64(headroomPM)
	if t.policy.HeadroomPM > 0 {
		part = t.policy.HeadroomPM
	}
	want := min(l.TE.Minutely(), gpus*part/1000)
	worker := l.TE.Worker
	worker.Cores = (worker.Cores + 999) / 1000
	worker.GPUs = (worker.GPUs + 999) / 1000 * 1000
	h := &headroom{want: int(want / max(1000, worker.GPUs)), on: make([]int32, len(t.view.Nodes()))}
	if h.want == 0 {
		return nil
	}
	resident := worker
	resident.Cores = 0
	h.worker.Request = cluster.Request{Active: worker, Resident: resident}
	h.worker.Workers, h.worker.PerNode = 1<<30, 1<<30
	for i := range h.on {
		h.count(t, i)
	}
	return h
}

// count counts anew how many workers a node would take.
func (h *headroom) count(t *trial, node int) {
	n := int32(0)
	if t.room.Usable(node, &h.worker, nil) && !t.room.Whole(node) {
		n = int32(max(0, fit.Capacity(&h.worker, t.room.AvailableTo(node, &h.worker))))
	}
	h.have += int(n - h.on[node])
	h.on[node] = n
}

// took notes that somebody has started on some nodes.
func (h *headroom) took(t *trial, spots []fit.Spot) {
	if h == nil {
		return
	}
	for i := range spots {
		h.count(t, spots[i].Node)
	}
}

// allows reports whether a best-effort job may have its spots. Holders of reservations have waited long enough to be excused.
func (h *headroom) allows(t *trial, c *contender, spots []fit.Spot) bool {
	if h == nil || c.job.Class == jobspec.TE || t.holders[c.job.ID] != nil {
		return true
	}
	lost := h.lost(t, c, spots)
	return lost == 0 || h.have-lost >= h.want
}

// lost returns how many workers of the headroom spots would take.
func (h *headroom) lost(t *trial, c *contender, spots []fit.Spot) int {
	lost := 0
	part, left := 0, c.gang.Workers
	for i := 0; i < len(spots); {
		var need cluster.Request
		node := spots[i].Node
		for ; i < len(spots) && spots[i].Node == node; i++ {
			for left == 0 {
				part++
				left = c.gang.At(part).Workers
			}
			left--
			need = fit.Plus(need, c.gang.At(part).Request)
		}
		lost += h.cost(t, node, need)
	}
	return lost
}

// cost returns how many workers fewer a node would take with some room gone.
func (h *headroom) cost(t *trial, node int, need cluster.Request) int {
	if h.on[node] == 0 {
		return 0
	}
	return int(h.on[node]) - max(0, fit.Capacity(&h.worker, fit.Minus(t.room.AvailableTo(node, &h.worker), need)))
}

// overTELimit reports whether a trial-and-error job's account has as many GPUs in such jobs as it may.
func (t *trial) overTELimit(j *cluster.Job) bool {
	limit := t.policy.TEAccountGPUs
	if limit <= 0 || !t.byService || j.Class != jobspec.TE {
		return false
	}
	own := t.holders[j.ID]
	if own != nil && own.Firm {
		return false // it was counted when the room was promised
	}
	if t.teHeld == nil {
		t.countAllTE()
	}
	return t.teHeld[j.Account]+j.Width() > limit*1000
}

// countAllTE counts the GPUs of trial-and-error jobs that run or have been promised room.
func (t *trial) countAllTE() {
	t.teHeld = map[string]int64{}
	for o := range t.view.Live() {
		if o.Class == jobspec.TE {
			t.teHeld[o.Account] += o.Width()
		}
	}
	for id, r := range t.holders {
		if o := t.view.Job(id); r.Firm && o.Class == jobspec.TE {
			t.teHeld[o.Account] += o.Width()
		}
	}
}

// countTE notes that a job has started or been promised room, once.
func (t *trial) countTE(j *cluster.Job) {
	if own := t.holders[j.ID]; t.teHeld == nil || j.Class != jobspec.TE || own != nil && own.Firm {
		return
	}
	t.teHeld[j.Account] += j.Width()
}
