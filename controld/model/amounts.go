package model

// Amounts is how much of everything that accounts and users are told to deserve: what several nodes
// have, or several jobs hold.
type Amounts struct {
	Cores  int64
	Memory int64   // in whole MiB, rounded up for each worker
	GPUs   int64   // in thousandths, of any model
	Models []int64 // in thousandths, of each model that the configuration names: see state.View.Models; nil: none of any
}

// InMiB returns a size in whole MiB, rounded up.
func InMiB(bytes int64) int64 { return (bytes + Mib - 1) / Mib }

// Add adds n times other amounts. The caller must own the destination.
func (a *Amounts) Add(o *Amounts, n int64) {
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

// Equal reports whether amounts are the same, none of a model and no model alike.
func (a *Amounts) Equal(o *Amounts) bool {
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

// Inventory is what all nodes have.
type Inventory struct {
	All Amounts // of nodes in any state, broken GPUs included
	Up  Amounts // of nodes that may get work, without broken GPUs

	WithGPUs Amounts // cores and memory of nodes in any state that have GPUs
}
