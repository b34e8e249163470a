package cluster

import (
	"cmp"
	"slices"
)

// Nearest says whether the nodes that have registered could hold a gang if they were empty, all up and nothing broken. If not, the
// reason has the node that comes nearest and how many workers would fit. While no node has registered, everything may fit.
func (v *View) Nearest(s Shape) (bool, Reason) {
	if len(v.nodes) == 0 {
		return true, Reason{}
	}
	fit, nearest := v.couldHold(s, nil)
	if fit >= s.Workers {
		return true, Reason{}
	}
	why := Reason{Code: ReasonBadConstraint, Need: s.Request.Active, Want: s.Workers, Fit: fit}
	if nearest != nil {
		why.Node, why.Have = nearest.Name, capacity(nearest)
	}
	return false, why
}

// couldHold counts the workers that empty nodes could hold, those in exclude left out, up to what is asked for, and returns the node
// that comes nearest to holding one.
func (v *View) couldHold(s Shape, exclude []string) (fit int, nearest *Node) {
	for _, n := range v.nodes {
		if slices.Contains(exclude, n.Name) {
			continue
		}
		if nearest == nil || nearer(s.Request.Active, capacity(n), capacity(nearest)) {
			nearest = n
		}
		if fit += workersIn(s, capacity(n)); fit >= s.Workers {
			return s.Workers, nearest
		}
	}
	return fit, nearest
}

func workersIn(s Shape, room Vector) int {
	n := int64(s.PerNode)
	need := s.Request.Active
	for _, d := range [][2]int64{
		{room.Cores, need.Cores}, {room.GPUs, need.GPUs}, {int64(room.Memory), int64(max(need.Memory, s.Request.Resident.Memory))},
	} {
		if d[1] > 0 {
			n = min(n, d[0]/d[1])
		}
	}
	return int(n)
}

// nearer reports whether a comes nearer to a need than b: by how many resources suffice, then by GPUs, memory and cores.
func nearer(need, a, b Vector) bool {
	enough := func(v Vector) (n int) {
		for _, ok := range []bool{v.Cores >= need.Cores, v.Memory >= need.Memory, v.GPUs >= need.GPUs} {
			if ok {
				n++
			}
		}
		return n
	}
	return cmp.Or(cmp.Compare(enough(a), enough(b)), cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.Memory, b.Memory),
		cmp.Compare(a.Cores, b.Cores)) > 0
}
