package model

// Shares reports whether an earlier worker of the same part is on the node of a worker.
func (j *Job) Shares(at []int, worker int) bool {
	part, number := j.PartOf(worker)
	for k := worker - number; k < worker; k++ {
		if other, _ := j.PartOf(k); other == part && at[k] == at[worker] {
			return true
		}
	}
	return false
}

// Ports returns those that a worker of an attempt holds on its node.
func (a *Attempt) Ports(worker int) []int {
	var ports []int
	if worker == 0 && a.MasterPort != 0 {
		ports = append(ports, a.MasterPort)
	}
	if p := a.Workers[worker].Port; p != 0 {
		ports = append(ports, p)
	}
	return ports
}
