package consensus

// HangDisk makes every write to the log of n wait until release is called.
func (n *Node) HangDisk() (release func()) {
	n.guard.mu.Lock()
	return n.guard.mu.Unlock
}
