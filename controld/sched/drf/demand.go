package drf

// Demand returns what part of the live cluster a node could make use of: what is held and asked for
// at it and below, within limits.
func (n *Node) Demand() Fraction { return n.demand }

// Active reports whether a node or one below it holds or asks for something.
func (n *Node) Active() bool { return n.active }

// Deserves reports whether something is configured that the node itself deserves.
func (n *Node) Deserves() bool { return n.deserves() }
