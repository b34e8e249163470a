package drf

// Demand returns what part of the live cluster a node could make use of: what is held and asked for
// at it and below, within limits.
func (n *TreeNode) Demand() Fraction { return n.demand }

// Active reports whether a node or one below it holds or asks for something.
func (n *TreeNode) Active() bool { return n.active }

// Deserves reports whether something is configured that the node itself deserves.
func (n *TreeNode) Deserves() bool { return n.deserves() }
