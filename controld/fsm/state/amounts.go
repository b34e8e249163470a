package state

import (
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// Models returns the models of GPUs of which the configuration says which accounts are entitled to
// them or limited, by name. The caller must not change it.
func (v *View) Models() []string { return v.models }

// modelsIn lists the models of which a configuration says something.
func modelsIn(cfg *cluster.Config) []string {
	named := map[string]bool{}
	note := func(t *cluster.Terms) {
		for _, q := range []*cluster.Quota{t.Deserved, t.Limit.Amounts()} {
			if q != nil {
				for m := range q.Models {
					named[m] = true
				}
			}
		}
	}
	for _, a := range cfg.Accounts {
		note(&a.Terms)
		for _, u := range a.Users {
			note(&u)
		}
	}
	if len(named) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(named))
}

// addGPU adds so many thousandths of a GPU like one of a node.
func (v *View) addGPU(a *model.Amounts, gpu *model.GPU, of int64) {
	a.GPUs += of
	if len(v.models) == 0 {
		return
	}
	if i, named := slices.BinarySearch(v.models, gpu.Model); named {
		if a.Models == nil {
			a.Models = make([]int64, len(v.models))
		}
		a.Models[i] += of
	}
}

// HeldBy returns what an attempt in progress counts for: what its workers hold that have not ended.
func (v *View) HeldBy(j *model.Job, a *model.Attempt) model.Amounts {
	var held model.Amounts
	for i := range a.Workers {
		w := &a.Workers[i]
		if w.State.Final() {
			continue
		}
		charged := j.Charged(a, i)
		if a.Suspended() {
			charged = model.Vector{Memory: charged.Memory}
		}
		held.Cores += charged.Cores
		held.Memory += model.InMiB(int64(charged.Memory))
		v.addDevices(&held, charged.GPUs, w)
	}
	return held
}

// addDevices adds the GPUs that a worker is charged for, by model where it is known which they are.
func (v *View) addDevices(held *model.Amounts, gpus int64, w *model.Worker) {
	if each := min(model.WholeGPU, gpus); len(v.models) > 0 && gpus == int64(len(w.GPUs))*each {
		if n, _ := v.Node(w.Node); n != nil {
			for _, g := range w.GPUs {
				if g >= 0 && g < len(n.GPUs) { // else checkOwners reports it
					v.addGPU(held, &n.GPUs[g], each)
				}
			}
			return
		}
	}
	held.GPUs += gpus
}

// RequestedBy returns what one attempt of a waiting job would count for. Of which model its GPUs
// would be is not known, so that they count for each.
func (v *View) RequestedBy(j *model.Job) model.Amounts {
	total := j.Total()
	a := model.Amounts{Cores: total.Cores, Memory: model.InMiB(int64(total.Memory)), GPUs: total.GPUs}
	if len(v.models) > 0 {
		a.Models = make([]int64, len(v.models))
		for i := range a.Models {
			a.Models[i] = total.GPUs
		}
	}
	return a
}

// Inventory returns what all nodes have. The caller must not change it.
func (v *View) Inventory() *model.Inventory { return v.inventory }

// stock adds a node to the inventory n times; -1 takes it out.
func (v *View) stock(inv *model.Inventory, n *model.Node, times int64) {
	room := model.Amounts{Cores: n.Cores, Memory: int64(n.Memory) / model.Mib}
	inv.All.Add(&room, times)
	if n.State == model.NodeUp {
		inv.Up.Add(&room, times)
	}
	if len(n.GPUs) > 0 {
		inv.WithGPUs.Add(&room, times)
	}
	for i := range n.GPUs {
		v.addGPU(&inv.All, &n.GPUs[i], times*model.WholeGPU)
		if n.State == model.NodeUp && n.GPUs[i].Healthy {
			v.addGPU(&inv.Up, &n.GPUs[i], times*model.WholeGPU)
		}
	}
}

// restock replaces a node in the inventory; old is nil for a new one.
func (s *State) restock(old, next *model.Node) {
	inv := &model.Inventory{}
	inv.All.Add(&s.v.inventory.All, 1)
	inv.Up.Add(&s.v.inventory.Up, 1)
	inv.WithGPUs.Add(&s.v.inventory.WithGPUs, 1)
	if old != nil {
		s.v.stock(inv, old, -1)
	}
	s.v.stock(inv, next, 1)
	s.v.inventory = inv
}

// inventoryOf returns the inventory made anew.
func (v *View) inventoryOf() *model.Inventory {
	inv := &model.Inventory{}
	for _, n := range v.nodes {
		v.stock(inv, n, 1)
	}
	return inv
}
