package cluster

import (
	"maps"
	"slices"
)

// Amounts is how much of everything that accounts and users are told to deserve: what several nodes have, or several jobs hold.
type Amounts struct {
	Cores  int64
	Memory int64   // in whole MiB, rounded up for each worker
	GPUs   int64   // in thousandths, of any model
	Models []int64 // in thousandths, of each model that the configuration names: see [View.Models]; nil: none of any
}

// InMiB returns a size in whole MiB, rounded up.
func InMiB(bytes int64) int64 { return (bytes + mib - 1) / mib }

// add adds n times other amounts. What it writes to must be the caller's own.
func (a *Amounts) add(o *Amounts, n int64) {
	a.Cores += n * o.Cores
	a.Memory += n * o.Memory
	a.GPUs += n * o.GPUs
	for i, gpus := range o.Models {
		if a.Models == nil {
			a.Models = make([]int64, len(o.Models))
		}
		a.Models[i] += n * gpus
	}
}

// equal reports whether amounts are the same, none of a model and no model alike.
func (a *Amounts) equal(o *Amounts) bool {
	if a.Cores != o.Cores || a.Memory != o.Memory || a.GPUs != o.GPUs {
		return false
	}
	for i := range max(len(a.Models), len(o.Models)) {
		if a.model(i) != o.model(i) {
			return false
		}
	}
	return true
}

func (a *Amounts) model(i int) int64 {
	if i < len(a.Models) {
		return a.Models[i]
	}
	return 0
}

// Models returns the models of GPUs of which the configuration says who deserves them, or may hold so many at most, by name. The caller must
// not change it.
func (v *View) Models() []string { return v.models }

// modelsIn lists the models of which a configuration says something.
func modelsIn(cfg *Config) []string {
	named := map[string]bool{}
	note := func(t *Terms) {
		for _, q := range []*Quota{t.Deserved, t.Limit} {
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
func (v *View) addGPU(a *Amounts, gpu *GPU, of int64) {
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
func (v *View) HeldBy(j *Job, a *Attempt) Amounts {
	var held Amounts
	for i := range a.Workers {
		w := &a.Workers[i]
		if w.State.Final() {
			continue
		}
		charged := j.Charged(a, i)
		held.Cores += charged.Cores
		held.Memory += InMiB(int64(charged.Memory))
		v.addDevices(&held, charged.GPUs, w)
	}
	return held
}

// addDevices adds the GPUs that a worker is charged for, by model where it is known which they are.
func (v *View) addDevices(held *Amounts, gpus int64, w *Worker) {
	if each := min(WholeGPU, gpus); len(v.models) > 0 && gpus == int64(len(w.GPUs))*each {
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

// Asked returns what one attempt of a waiting job would count for. Of which model its GPUs would be is not known, so that they count for
// each.
func (v *View) Asked(j *Job) Amounts {
	total := j.Total()
	a := Amounts{Cores: total.Cores, Memory: InMiB(int64(total.Memory)), GPUs: total.GPUs}
	if len(v.models) > 0 {
		a.Models = make([]int64, len(v.models))
		for i := range a.Models {
			a.Models[i] = total.GPUs
		}
	}
	return a
}

// Inventory is what all nodes have.
type Inventory struct {
	All Amounts // of nodes in any state, broken GPUs included
	Up  Amounts // of nodes that may get work, without broken GPUs

	WithGPUs Amounts // cores and memory of nodes in any state that have GPUs
}

// Inventory returns what all nodes have. The caller must not change it.
func (v *View) Inventory() *Inventory { return v.inventory }

// stock adds a node to the inventory n times; -1 takes it out.
func (v *View) stock(inv *Inventory, n *Node, times int64) {
	room := Amounts{Cores: n.Cores, Memory: int64(n.Memory) / mib}
	inv.All.add(&room, times)
	if n.State == NodeUp {
		inv.Up.add(&room, times)
	}
	if len(n.GPUs) > 0 {
		inv.WithGPUs.add(&room, times)
	}
	for i := range n.GPUs {
		v.addGPU(&inv.All, &n.GPUs[i], times*WholeGPU)
		if n.State == NodeUp && n.GPUs[i].Healthy {
			v.addGPU(&inv.Up, &n.GPUs[i], times*WholeGPU)
		}
	}
}

// restock replaces a node in the inventory; old is nil for a new one.
func (s *State) restock(old, next *Node) {
	inv := &Inventory{}
	inv.All.add(&s.v.inventory.All, 1)
	inv.Up.add(&s.v.inventory.Up, 1)
	inv.WithGPUs.add(&s.v.inventory.WithGPUs, 1)
	if old != nil {
		s.v.stock(inv, old, -1)
	}
	s.v.stock(inv, next, 1)
	s.v.inventory = inv
}

// inventoryOf returns the inventory made anew.
func (v *View) inventoryOf() *Inventory {
	inv := &Inventory{}
	for _, n := range v.nodes {
		v.stock(inv, n, 1)
	}
	return inv
}
