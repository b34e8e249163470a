package drf

// Demand returns the part of the live cluster that a node could use: the sum of holdings and
// requests at it and below, within limits.
func (n *TreeNode) Demand() Fraction { return n.demand }

// Active reports whether a node or one below it holds or asks for something.
func (n *TreeNode) Active() bool { return n.active }

// Deserves reports whether something is configured that the node itself deserves.
func (n *TreeNode) Deserves() bool { return n.deserves() }
