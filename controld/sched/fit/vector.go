package fit

import (
	"math"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Times returns the request of n workers on one node.
func Times(r model.Request, n int) model.Request {
	return model.Request{Active: times(r.Active, n), Resident: times(r.Resident, n), Exclusive: r.Exclusive}
}

// Plus adds two amounts of room.
func Plus(a, b model.Request) model.Request {
	return model.Request{Active: plus(a.Active, b.Active), Resident: plus(a.Resident, b.Resident)}
}

// Minus takes one amount of room from another.
func Minus(a, b model.Request) model.Request {
	return model.Request{Active: minus(a.Active, b.Active), Resident: minus(a.Resident, b.Resident)}
}

// Within reports whether need is not more than free in any respect.
func Within(need, free model.Request) bool {
	return within(need.Active, free.Active) && within(need.Resident, free.Resident)
}

// Both is a node's capacity as room for the active and for the resident.
func Both(v model.Vector) model.Request { return model.Request{Active: v, Resident: v} }

// Capacity returns how many workers of a part free room on one node holds, at most as many as may
// share a node.
func Capacity(p *Part, free model.Request) int {
	n := int64(min(p.PerNode, p.Workers))
	for _, pair := range [][2]model.Vector{{p.Request.Active, free.Active}, {p.Request.Resident, free.Resident}} {
		need, have := pair[0], pair[1]
		n = min(n, ratio(need.Cores, have.Cores), ratio(int64(need.Memory), int64(have.Memory)), seats(need.GPUs, have.GPUs))
	}
	return int(n)
}

// seats returns how many workers some GPUs hold. Those that share one do not lie across two.
func seats(need, have int64) int64 {
	if need <= 0 || need >= gpu || have <= 0 {
		return ratio(need, have)
	}
	return have/gpu*(gpu/need) + have%gpu/need
}

// ratio returns how often need goes into have; what is not needed sets no bound.
func ratio(need, have int64) int64 {
	switch {
	case need <= 0:
		return math.MaxInt64
	case have <= 0:
		return 0
	}
	return have / need
}

func times(v model.Vector, n int) model.Vector {
	v.Cores *= int64(n)
	v.Memory *= jobspec.Bytes(n)
	v.GPUs *= int64(n)
	return v
}

func plus(a, b model.Vector) model.Vector {
	return model.Vector{Cores: a.Cores + b.Cores, Memory: a.Memory + b.Memory, GPUs: a.GPUs + b.GPUs}
}

func minus(a, b model.Vector) model.Vector {
	return model.Vector{Cores: a.Cores - b.Cores, Memory: a.Memory - b.Memory, GPUs: a.GPUs - b.GPUs}
}

// AtLeast returns an amount that covers both the active and the resident part of a request.
func AtLeast(r model.Request) model.Vector {
	a, b := r.Active, r.Resident
	return model.Vector{Cores: max(a.Cores, b.Cores), Memory: max(a.Memory, b.Memory), GPUs: max(a.GPUs, b.GPUs)}
}

func within(need, free model.Vector) bool {
	return ratio(need.Cores, free.Cores) > 0 && ratio(int64(need.Memory), int64(free.Memory)) > 0 &&
		ratio(need.GPUs, free.GPUs) > 0
}

// Most returns of each resource the greater amount.
func Most(a, b model.Vector) model.Vector {
	return model.Vector{Cores: max(a.Cores, b.Cores), Memory: max(a.Memory, b.Memory), GPUs: max(a.GPUs, b.GPUs)}
}

// Length is the Euclidean length of an amount in parts of a capacity. Each product is rounded by
// itself, since some machines would otherwise fuse it with the sum and come to another result.
func Length(v, of model.Vector) float64 {
	sum := float64(0)
	for _, p := range [3][2]int64{{v.Cores, of.Cores}, {int64(v.Memory), int64(of.Memory)}, {v.GPUs, of.GPUs}} {
		if p[1] <= 0 {
			continue
		}
		part := float64(float64(p[0]) / float64(p[1]))
		sum = float64(sum + float64(part*part))
	}
	return math.Sqrt(sum)
}

// AddRoom adds room on a node to a list that has each node at most once.
func AddRoom(list []estimate.NodeResources, node int, room model.Request) []estimate.NodeResources {
	for i := range list {
		if list[i].Node == node {
			list[i].Room = Plus(list[i].Room, room)
			return list
		}
	}
	return append(list, estimate.NodeResources{Node: node, Room: room})
}
