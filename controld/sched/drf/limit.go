package drf

// Limited returns the node at or above n whose limit is in the way of more, and the resource; nil
// if none is.
func (n *TreeNode) Limited(more Amount) (at *TreeNode, resource int) {
	for m := n; m != nil; m = m.parent {
		for r, l := range m.terms.Limit {
			if l != Unset && more[r] > 0 && m.held[r]+more[r] > l {
				return m, r
			}
		}
	}
	return nil, 0
}
