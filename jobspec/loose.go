package jobspec

import "strconv"

// Loose reports whether the job's workers start one by one: it has one group of several workers
// that says gang = false.
func (j *Job) Loose() bool {
	return len(j.Groups) == 1 && j.Groups[0].Loose()
}

// Loose reports whether the workers of the group start one by one: there are several, and gang is
// false.
func (g *Group) Loose() bool { return g.Gang != nil && !*g.Gang && g.Count > 1 }

// Loosen returns a loose job as an array with an element for each worker. The index is the number
// of the worker. It returns any other job as it is.
func (j *Job) Loosen() *Job {
	if !j.Loose() {
		return j
	}
	next := *j
	next.Groups = []Group{j.Groups[0]}
	next.Array = &Array{Indices: "0-" + strconv.Itoa(j.Groups[0].Count-1)}
	next.Groups[0].Count = 1
	next.Default()
	return &next
}
