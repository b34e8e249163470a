package cluster

import (
	"cmp"
	"maps"
	"slices"
)

// Bounds of what is learnt of speeds.
const (
	maxRatedNames   = 512 // names
	maxRatesPerName = 64  // sizes of one name, those on one node and on several told apart
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

// stepRateOf is what the rate of an attempt says.
func stepRateOf(e Elastic, a *Attempt) Pace {
	p := Pace{Size: len(a.Workers) - e.Fixed, Rate: a.Rate}
	for _, w := range a.Workers[e.First : e.First+p.Size] {
		p.Apart = p.Apart || w.Node != a.Workers[e.First].Node
	}
	return p
}

// Paces is how fast the jobs of one user with one name were, by size, and how much they took.
type Paces struct {
	At    Instant `json:"at"` // of the last measurement
	Sizes []Pace  `json:"sizes"`

	Ended   int64 `json:"ended,omitempty"`   // of them, how many have completed
	Service int64 `json:"service,omitempty"` // what one of these took in all, as [Job.Attained] counts it: the mean, in which the last ones count for most
}

// servicesKept is after how many completed jobs what the earlier ones took counts for about a third.
const servicesKept = 8

// rateKey names jobs that are taken to be alike.
func rateKey(j *Job) string { return j.Owner.User + "/" + j.Spec.Name }

// PacesOf returns how fast elastic jobs of the same user with the same name were, by size, nil if none was measured. The caller must not change it.
func (v *View) PacesOf(j *Job) []Pace {
	if v.statistics == nil {
		return nil
	}
	return v.statistics.Paces[rateKey(j)].Sizes
}

// UsualService returns how much service elastic jobs of the same user with the same name took until they had completed, as [Job.Attained] counts it;
// 0 if none has.
func (v *View) UsualService(j *Job) int64 {
	if v.statistics == nil {
		return 0
	}
	return v.statistics.Paces[rateKey(j)].Service
}

// recordService takes in how much service a job has taken that has completed.
func (s *State) recordService(j *Job) {
	if _, elastic := j.Elastic(); !elastic {
		return
	}
	l, p := s.ownStepRates(j)
	if l == nil {
		return
	}
	p.At = s.v.at
	p.Ended++
	p.Service += (j.Attained() - p.Service) / min(p.Ended, servicesKept)
	l.Paces[rateKey(j)] = p
}

// ownStepRates returns what is known of jobs like one, with a table to store it in again; nil if there is none.
func (s *State) ownStepRates(j *Job) (*Learned, Paces) {
	l := s.ownStatistics()
	if l == nil {
		return nil, Paces{}
	}
	if l.Paces = maps.Clone(l.Paces); l.Paces == nil {
		l.Paces = map[string]Paces{}
	}
	key := rateKey(j)
	if _, known := l.Paces[key]; !known && len(l.Paces) >= maxRatedNames {
		delete(l.Paces, oldestRated(l.Paces))
	}
	return l, l.Paces[key]
}

// recordStepRate takes in how fast an attempt is. Of several measurements at one size and as far apart the later count for more; who has not been seen for longest is
// forgotten.
func (s *State) recordStepRate(j *Job, a *Attempt) {
	e, elastic := j.Elastic()
	if !elastic {
		return
	}
	if l, p := s.ownStepRates(j); l != nil {
		l.Paces[rateKey(j)] = p.with(stepRateOf(e, a), s.v.at)
	}
}

func oldestRated(all map[string]Paces) string {
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
	case len(p.Sizes) < maxRatesPerName:
		p.Sizes = slices.Insert(p.Sizes, i, n)
	}
	return p
}

// recordRelease notes that an attempt has ended: how long room has been idle is counted from then.
func (s *State) recordRelease() {
	if s.v.statistics != nil && s.v.statistics.Freed == s.v.at {
		return
	}
	s.ownStatistics().Freed = s.v.at
}

// recordElasticStart notes that an elastic job begins an attempt: as long as none has, nobody has to look for any.
func (s *State) recordElasticStart(j *Job) {
	if _, elastic := j.Elastic(); elastic {
		s.ownStatistics().Elastic = s.v.at
	}
}
