package cluster

import (
	"cmp"
	"maps"
	"slices"
)

// Bounds of what is learnt of speeds.
const (
	maxPaced = 512 // names
	maxPaces = 64  // sizes of one name, those on one node and on several told apart
)

// Pace is how fast a job was with a number of elastic workers, all on one node or on several.
type Pace struct {
	Size  int   `json:"size"`
	Apart bool  `json:"apart,omitempty"` // on several nodes
	Rate  int64 `json:"rate"`            // steps in 1,000 s
}

// compare orders by size, those on one node first.
func (p Pace) compare(o Pace) int {
	if c := cmp.Compare(p.Size, o.Size); c != 0 || p.Apart == o.Apart {
		return c
	}
	if o.Apart {
		return -1
	}
	return 1
}

// paceOf is what the rate of an attempt says.
func paceOf(e Elastic, a *Attempt) Pace {
	p := Pace{Size: len(a.Workers) - e.Fixed, Rate: a.Rate}
	for _, w := range a.Workers[e.First : e.First+p.Size] {
		p.Apart = p.Apart || w.Node != a.Workers[e.First].Node
	}
	return p
}

// Paces is how fast the jobs of one user with one name were, by size.
type Paces struct {
	At    Instant `json:"at"` // of the last measurement
	Sizes []Pace  `json:"sizes"`
}

// paceKey names jobs that are taken to be alike.
func paceKey(j *Job) string { return j.Owner.User + "/" + j.Spec.Name }

// PacesOf returns how fast elastic jobs of the same user with the same name were, by size, nil if none was measured. The caller must not change it.
func (v *View) PacesOf(j *Job) []Pace {
	if v.learned == nil {
		return nil
	}
	return v.learned.Paces[paceKey(j)].Sizes
}

// learnPace takes in how fast an attempt is. Of several measurements at one size and as far apart the later count for more; who has not been seen for longest is
// forgotten.
func (s *State) learnPace(j *Job, a *Attempt) {
	e, elastic := j.Elastic()
	l := s.ownLearned()
	if l == nil || !elastic {
		return
	}
	if l.Paces = maps.Clone(l.Paces); l.Paces == nil {
		l.Paces = map[string]Paces{}
	}
	key := paceKey(j)
	if _, known := l.Paces[key]; !known && len(l.Paces) >= maxPaced {
		delete(l.Paces, oldestPaced(l.Paces))
	}
	l.Paces[key] = l.Paces[key].with(paceOf(e, a), s.v.at)
}

func oldestPaced(all map[string]Paces) string {
	oldest := ""
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if oldest == "" || all[key].At < all[oldest].At {
			oldest = key
		}
	}
	return oldest
}

// with returns the paces with one more measurement.
func (p Paces) with(n Pace, at Instant) Paces {
	p.At, p.Sizes = at, slices.Clone(p.Sizes)
	i, known := slices.BinarySearchFunc(p.Sizes, n, Pace.compare)
	switch {
	case known:
		p.Sizes[i].Rate = (p.Sizes[i].Rate + n.Rate) / 2
	case len(p.Sizes) < maxPaces:
		p.Sizes = slices.Insert(p.Sizes, i, n)
	}
	return p
}

// learnFreed notes that an attempt has ended: how long room has been idle is counted from then.
func (s *State) learnFreed() {
	if s.v.config.Version < 3 || s.v.learned != nil && s.v.learned.Freed == s.v.at {
		return
	}
	s.ownLearned().Freed = s.v.at
}

// learnElastic notes that an elastic job begins an attempt: as long as none has, nobody has to look for any.
func (s *State) learnElastic(j *Job) {
	if _, elastic := j.Elastic(); elastic {
		if l := s.ownLearned(); l != nil {
			l.Elastic = s.v.at
		}
	}
}
