package model

// IsSetAside reports whether a waiting job cannot start whatever room there is.
func IsSetAside(j *Job) bool {
	return j.Hold != NotHeld || j.Blocked() || j.Children != nil && len(j.Ready()) == 0
}

// PerNode returns how many workers of a job may share a node, at least 1.
func PerNode(j *Job) int { return max(1, j.GroupSpec().MaxWorkersPerNode) }
