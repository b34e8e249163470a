package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// # How long jobs have run
//
// A user's next job mostly runs for about as long as his last ones with its name. So the cluster counts for how long the best-effort jobs have
// run that are over, in classes that double, by who submitted them. Nobody is asked for an estimate, and only what is over teaches: by its end,
// by a failure or because somebody cancelled it, for all three end the service.

// Bounds of what is kept.
const (
	maxRuntimeHistories = 2048 // kinds: when there are more, the one of which none has ended for longest is forgotten
	runtimeClasses      = 24
	runtimesKept        = 64     // jobs of a kind: when there are more, all counts are halved, so that what is recent weighs more
	runtimeUnitMS       = 15_000 // ms: up to where class 0 goes
)

// fewestRuntimes is how many jobs of a kind must be over that ran for at least as long as one has for a word about what it has left.
const fewestRuntimes = 5

// PastKind is what jobs have in common that are taken to be alike: a user's in an account with one name, all of a user, all of an account, or all
// of the cluster. What is empty or 0 does not matter.
type PastKind struct {
	Account string `json:"account,omitempty"`
	User    string `json:"user,omitempty"`
	Name    string `json:"name,omitempty"`
	Size    int64  `json:"size,omitempty"` // thousandths of a GPU of the whole job, below 0 for as many cores of one without GPUs
}

func (k *PastKind) compare(o *PastKind) int {
	if c := strings.Compare(k.Account, o.Account); c != 0 {
		return c
	}
	if c := strings.Compare(k.User, o.User); c != 0 {
		return c
	}
	if c := strings.Compare(k.Name, o.Name); c != 0 {
		return c
	}
	return cmp.Compare(k.Size, o.Size)
}

// Past is for how long the jobs of one kind ran: Counts[i] did for less than 2^i quarters of a minute and no less than half of that, at the size that
// they asked for.
type Past struct {
	Kind   PastKind             `json:"kind"`
	Used   int64                `json:"used"` // greater than that of every kind of which none has ended since
	Counts [runtimeClasses]int8 `json:"counts"`

	epoch uint64 // at which it was made: it may be written until then is over
}

// Pasts is for how long jobs have run, by kind. A Pasts never changes once a view has it.
type Pasts struct {
	list []*Past // by kind
	used int64   // the greatest Used
}

func (s *Pasts) find(kind *PastKind) (int, bool) { return s.search(0, len(s.list), kind) }

// search returns where a kind is, or would be, that is between two places.
func (s *Pasts) search(low, high int, kind *PastKind) (int, bool) {
	for low < high {
		if mid := int(uint(low+high) / 2); s.list[mid].Kind.compare(kind) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(s.list) && s.list[low].Kind == *kind
}

// findNear is find for a kind that is probably soon after a place.
func (s *Pasts) findNear(place int, kind *PastKind) (int, bool) {
	if place > 0 && s.list[place-1].Kind.compare(kind) >= 0 {
		return s.search(0, place-1, kind)
	}
	for step := 1; place+step <= len(s.list); step *= 2 {
		if s.list[place+step-1].Kind.compare(kind) >= 0 {
			return s.search(place, place+step-1, kind)
		}
		place += step
	}
	return s.search(place, len(s.list), kind)
}

// add counts a job of a kind that has run for so many ms, and returns where it is: probably soon after near.
func (s *Pasts) add(near int, kind *PastKind, ran int64, epoch uint64) int {
	i, known := s.findNear(near, kind)
	if !known {
		i = s.evictOldest(i)
		s.list = slices.Insert(s.list, i, &Past{Kind: *kind, epoch: epoch})
	}
	p := s.list[i]
	if p.epoch != epoch {
		next := *p
		next.epoch = epoch
		p, s.list[i] = &next, &next
	}
	s.used++
	p.Used = s.used
	p.Counts[runtimeClass(ran)]++
	if p.total() > runtimesKept {
		for i := range p.Counts {
			p.Counts[i] /= 2
		}
	}
	return i
}

// evictOldest forgets the kind of which none has ended for longest if there are as many as may be, and returns where a place has moved by that.
func (s *Pasts) evictOldest(place int) int {
	if len(s.list) < maxRuntimeHistories {
		return place
	}
	oldest := 0
	for i, p := range s.list {
		if p.Used < s.list[oldest].Used {
			oldest = i
		}
	}
	s.list = slices.Delete(s.list, oldest, oldest+1)
	if oldest < place {
		place--
	}
	return place
}

// runtimeClass returns the class of so many ms.
func runtimeClass(ran int64) int {
	return min(runtimeClasses-1, bits.Len64(uint64(max(0, ran))/runtimeUnitMS))
}

func (p *Past) total() int {
	n := 0
	for _, c := range p.Counts {
		n += int(c)
	}
	return n
}

// MarshalJSON writes the kinds in order.
func (s *Pasts) MarshalJSON() ([]byte, error) { return json.Marshal(s.list) }

// UnmarshalJSON reads what MarshalJSON has written.
func (s *Pasts) UnmarshalJSON(data []byte) error {
	*s = Pasts{}
	if err := json.Unmarshal(data, &s.list); err != nil {
		return fmt.Errorf("how long jobs ran: %w", err)
	}
	for _, p := range s.list {
		if p == nil {
			return fmt.Errorf("how long jobs ran: an empty entry: %w", ErrSnapshot)
		}
		s.used = max(s.used, p.Used)
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return nil
}

// check says whether the kinds are in order and all counts within their bounds.
func (s *Pasts) check() error {
	if len(s.list) > maxRuntimeHistories {
		return fmt.Errorf("how long jobs ran is kept of %d kinds", len(s.list))
	}
	used := make(map[int64]bool, len(s.list))
	for i, p := range s.list {
		switch {
		case i > 0 && s.list[i-1].Kind.compare(&p.Kind) >= 0:
			return fmt.Errorf("how long jobs of kind %+v ran is not in its place", p.Kind)
		case p.total() > runtimesKept, slices.Min(p.Counts[:]) < 0:
			return fmt.Errorf("how long jobs of kind %+v ran is beyond its bounds", p.Kind)
		case p.Used <= 0, p.Used > s.used, used[p.Used]:
			return fmt.Errorf("it cannot be told when the last job of kind %+v ended", p.Kind)
		}
		used[p.Used] = true
	}
	return nil
}

// kindsOfJob returns the kinds that a job belongs to, the narrowest first: the user's jobs with its name and size, with its name, of its size, all of the
// user, all of the account, and all.
func kindsOfJob(j *Job) (kinds [6]PastKind, first int) {
	total := j.Total()
	size := total.GPUs
	if size == 0 {
		size = -total.Cores
	}
	account, user, name := j.Account, j.Owner.User, j.Spec.Name
	if name == "" {
		first = 2
	}
	return [...]PastKind{
		{account, user, name, size}, {account, user, name, 0}, {account, user, "", size}, {account, user, "", 0}, {Account: account}, {},
	}, first
}

// recordRuntime takes in for how long a best-effort job has run that is over. What a node
// has ended says nothing about the job.
func (s *State) recordRuntime(j *Job) {
	if j.Class == jobspec.TE || j.Attempt == 0 || j.Family != nil || j.State == NodeFailed || j.State == BootFailed {
		return
	}
	pasts := s.ownRuntimeHistory()
	kinds, first := kindsOfJob(j)
	ran, near := j.RanFor(j.Attained()), 0
	for i := len(kinds) - 1; i >= first; i-- { // the widest first: the narrowest is the last to be forgotten
		near = pasts.add(near, &kinds[i], ran, s.epoch)
	}
}

// ownRuntimeHistory returns for how long jobs have run, ready to be written.
func (s *State) ownRuntimeHistory() *Pasts {
	if s.runtimeEpoch == s.epoch && s.v.statistics != nil && s.v.statistics.Pasts != nil {
		return s.v.statistics.Pasts
	}
	l, next := s.ownStatistics(), &Pasts{}
	if l.Pasts != nil {
		next.list, next.used = slices.Clone(l.Pasts.list), l.Pasts.used
	}
	l.Pasts, s.runtimeEpoch = next, s.epoch
	return next
}

// Foresee returns how long it takes by the cluster's history to bring a job to its end that has run for so many ms: the least time that is spent
// for each of its kind that ends, if each gets up to some bound chosen for that. It is the reciprocal of Gittins' index: little for who will
// probably be over soon. The narrowest kind speaks of which enough are known that came so far. False: there is none.
func (v *View) Foresee(j *Job, ran int64) (int64, bool) {
	if v.statistics == nil || v.statistics.Pasts == nil {
		return 0, false
	}
	kinds, first := kindsOfJob(j)
	for i := first; i < len(kinds); i++ {
		if at, known := v.statistics.Pasts.find(&kinds[i]); known {
			if price, known := v.statistics.Pasts.list[at].remainingCost(ran); known {
				return price, true
			}
		}
	}
	return 0, false
}

// remainingCost returns the least time for each job that ends, of those that ran for at least so long. A job of a class is taken to end in its middle.
func (p *Past) remainingCost(ran int64) (int64, bool) {
	from, left := runtimeClass(ran), int64(0)
	for _, n := range p.Counts[from:] {
		left += int64(n)
	}
	if left < fewestRuntimes {
		return 0, false
	}
	best, spent, ended := int64(1)<<62, int64(0), int64(0)
	for i, at := from, ran; i < runtimeClasses && ended < left; i++ {
		end, n := max(at, int64(runtimeUnitMS)<<i), int64(p.Counts[i])
		spent += n*((end-at)/2) + (left-ended-n)*(end-at)
		ended += n
		if at = end; ended > 0 {
			best = min(best, spent/ended)
		}
	}
	return best, true
}

// checkRuntimeHistory says whether what is known of how long jobs ran is kept as it should be.
func (s *State) checkRuntimeHistory() error {
	if s.v.statistics == nil || s.v.statistics.Pasts == nil {
		return nil
	}
	return s.v.statistics.Pasts.check()
}
