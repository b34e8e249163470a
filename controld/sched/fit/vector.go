package fit

import (
	"math"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
)

// Within reports whether need is not more than free in any respect.
func Within(need, free model.Request) bool {
	return need.Active.Within(free.Active.Positive()) && need.Resident.Within(free.Resident.Positive())
}

// Both is a node's capacity as room for the active and for the resident.
func Both(v model.Vector) model.Request { return model.Request{Active: v, Resident: v} }

// Capacity returns how many workers of a part free room on one node holds, at most as many as may
// share a node.
func Capacity(p *Component, free model.Request) int {
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

// ratio returns how often need goes into have; a resource that is not needed sets no bound.
func ratio(need, have int64) int64 {
	switch {
	case need <= 0:
		return math.MaxInt64
	case have <= 0:
		return 0
	}
	return have / need
}

// AtLeast returns an amount that covers both the active and the resident part of a request.
func AtLeast(r model.Request) model.Vector { return r.Active.Most(r.Resident) }

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
			list[i].Room = list[i].Room.Plus(room)
			return list
		}
	}
	return append(list, estimate.NodeResources{Node: node, Room: room})
}
