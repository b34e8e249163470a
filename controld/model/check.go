package model

// LeftBy returns when the last of the workers on the node of worker k left, 0 if that has not come or another k stands for the node.
func (a *Attempt) LeftBy(k int) Instant {
	var last Instant
	for i := range a.Workers {
		switch o := &a.Workers[i]; {
		case o.Node != a.Workers[k].Node:
		case i < k || o.Ended == 0:
			return 0
		default:
			last = max(last, o.Ended)
		}
	}
	return last
}
