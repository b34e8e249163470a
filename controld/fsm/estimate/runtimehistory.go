package estimate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
)

// FewestRuntimes is the number of ended jobs of a kind, with at least a job's runtime so far, that
// a prediction for that job needs.
const FewestRuntimes = 5

// JobKind names jobs that are taken to be alike. They are a user's jobs in an account with one
// name, all jobs of a user, all of an account, or all of the cluster. Empty fields and zeros match
// any job.
type JobKind struct {
	Account string `json:"account,omitempty"`
	User    string `json:"user,omitempty"`
	Name    string `json:"name,omitempty"`
	// thousandths of a GPU of the whole job, below 0 for as many cores of one without GPUs
	Size int64 `json:"size,omitempty"`
}

func (k *JobKind) compare(o *JobKind) int {
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

// RuntimeHistogram counts runtimes of jobs of one kind, at the size that they asked for. Counts[i]
// has jobs that ran for less than 2^i quarters of a minute, and for at least half of that.
type RuntimeHistogram struct {
	Kind   JobKind              `json:"kind"`
	Used   int64                `json:"used"` // greater than for any kind whose last end came earlier
	Counts [RuntimeClasses]int8 `json:"counts"`

	epoch uint64 // at which it was made: it may be written until then is over
}

// RuntimeHistory is for how long jobs have run, by kind. A RuntimeHistory never changes once a view
// has it.
type RuntimeHistory struct {
	List []*RuntimeHistogram // by kind
	Used int64               // the greatest Used
}

// Find returns where the histogram of a job kind is, or would be, and whether it is there.
func (s *RuntimeHistory) Find(kind *JobKind) (int, bool) { return s.search(0, len(s.List), kind) }

// search returns where a kind is, or would be, that is between two places.
func (s *RuntimeHistory) search(low, high int, kind *JobKind) (int, bool) {
	for low < high {
		if mid := int(uint(low+high) / 2); s.List[mid].Kind.compare(kind) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(s.List) && s.List[low].Kind == *kind
}

// findNear is find for a kind that is probably soon after a place.
func (s *RuntimeHistory) findNear(place int, kind *JobKind) (int, bool) {
	if place > 0 && s.List[place-1].Kind.compare(kind) >= 0 {
		return s.search(0, place-1, kind)
	}
	for step := 1; place+step <= len(s.List); step *= 2 {
		if s.List[place+step-1].Kind.compare(kind) >= 0 {
			return s.search(place, place+step-1, kind)
		}
		place += step
	}
	return s.search(place, len(s.List), kind)
}

// Add counts a job of a kind that has run for so many ms, and returns where it is: probably soon
// after near.
func (s *RuntimeHistory) Add(near int, kind *JobKind, ran int64, epoch uint64) int {
	i, known := s.findNear(near, kind)
	if !known {
		i = s.evictOldest(i)
		s.List = slices.Insert(s.List, i, &RuntimeHistogram{Kind: *kind, epoch: epoch})
	}
	p := s.List[i]
	if p.epoch != epoch {
		next := *p
		next.epoch = epoch
		p, s.List[i] = &next, &next
	}
	s.Used++
	p.Used = s.Used
	p.Counts[runtimeClass(ran)]++
	if p.total() > RuntimesKept {
		for i := range p.Counts {
			p.Counts[i] /= 2
		}
	}
	return i
}

// evictOldest forgets the kind whose last end is the oldest, if the table is full. It returns the
// index of the place that moved.
func (s *RuntimeHistory) evictOldest(place int) int {
	if len(s.List) < MaxRuntimeHistories {
		return place
	}
	oldest := 0
	for i, p := range s.List {
		if p.Used < s.List[oldest].Used {
			oldest = i
		}
	}
	s.List = slices.Delete(s.List, oldest, oldest+1)
	if oldest < place {
		place--
	}
	return place
}

// runtimeClass returns the class of so many ms.
func runtimeClass(ran int64) int {
	return min(RuntimeClasses-1, bits.Len64(uint64(max(0, ran))/runtimeUnitMS))
}

func (p *RuntimeHistogram) total() int {
	n := 0
	for _, c := range p.Counts {
		n += int(c)
	}
	return n
}

// MarshalJSON writes the kinds in order.
func (s *RuntimeHistory) MarshalJSON() ([]byte, error) { return json.Marshal(s.List) }

// UnmarshalJSON reads what MarshalJSON has written.
func (s *RuntimeHistory) UnmarshalJSON(data []byte) error {
	*s = RuntimeHistory{}
	if err := json.Unmarshal(data, &s.List); err != nil {
		return fmt.Errorf("runtime history: %w", err)
	}
	for _, p := range s.List {
		if p == nil {
			return fmt.Errorf("runtime history: an empty entry: %w", model.ErrSnapshot)
		}
		s.Used = max(s.Used, p.Used)
	}
	if err := s.Check(); err != nil {
		return fmt.Errorf("%w: %w", model.ErrSnapshot, err)
	}
	return nil
}

// Check says whether the kinds are in order and all counts within their bounds.
func (s *RuntimeHistory) Check() error {
	if len(s.List) > MaxRuntimeHistories {
		return fmt.Errorf("runtime history: it has %d kinds of jobs", len(s.List))
	}
	used := make(map[int64]bool, len(s.List))
	for i, p := range s.List {
		switch {
		case i > 0 && s.List[i-1].Kind.compare(&p.Kind) >= 0:
			return fmt.Errorf("runtime history: the entry of kind %+v is not in its place", p.Kind)
		case p.total() > RuntimesKept, slices.Min(p.Counts[:]) < 0:
			return fmt.Errorf("runtime history: the entry of kind %+v is out of range", p.Kind)
		case p.Used <= 0, p.Used > s.Used, used[p.Used]:
			return fmt.Errorf("runtime history: the end of the last job of kind %+v is unknown", p.Kind)
		}
		used[p.Used] = true
	}
	return nil
}

// KindsOfJob returns the kinds of a job, the narrowest first. They are the user's jobs with its
// name and size, with its name, and of its size, then all of the user, all of the account, and all
// jobs.
func KindsOfJob(j *model.Job) (kinds [6]JobKind, first int) {
	total := j.Total()
	size := total.GPUs
	if size == 0 {
		size = -total.Cores
	}
	account, user, name := j.Account, j.Owner.User, j.Spec.Name
	if name == "" {
		first = 2
	}
	return [...]JobKind{
		{account, user, name, size}, {account, user, name, 0}, {account, user, "", size}, {account, user, "", 0},
		{Account: account}, {},
	}, first
}

// RemainingCost returns the least time for each job that ends, of those that ran for at least so
// long. A job of a class is taken to end in its middle.
func (p *RuntimeHistogram) RemainingCost(ran int64) (int64, bool) {
	from, left := runtimeClass(ran), int64(0)
	for _, n := range p.Counts[from:] {
		left += int64(n)
	}
	if left < FewestRuntimes {
		return 0, false
	}
	best, spent, ended := int64(1)<<62, int64(0), int64(0)
	for i, at := from, ran; i < RuntimeClasses && ended < left; i++ {
		end, n := max(at, int64(runtimeUnitMS)<<i), int64(p.Counts[i])
		spent += n*((end-at)/2) + (left-ended-n)*(end-at)
		ended += n
		if at = end; ended > 0 {
			best = min(best, spent/ended)
		}
	}
	return best, true
}

// Bounds of what is kept.
const (
	MaxRuntimeHistories = 2048 // kinds: when there are more, the one of which none has ended for longest is forgotten
	RuntimeClasses      = 24
	// jobs of a kind: when there are more, all counts are halved, so that what is recent weighs more
	RuntimesKept  = 64
	runtimeUnitMS = 15_000 // ms: up to where class 0 goes
)

// LowerQuartile is about the jobs that ran for at least so long. It returns the earliest time, in
// ms, by which a quarter of them had ended, and their number. A job of a class is taken to end at
// its begin.
func (p *RuntimeHistogram) LowerQuartile(ran int64) (least int64, jobs int) {
	from := runtimeClass(ran)
	for _, n := range p.Counts[from:] {
		jobs += int(n)
	}
	ended := 0
	for i := from; i < RuntimeClasses; i++ {
		if ended += int(p.Counts[i]); ended > 0 && 4*ended >= jobs {
			if i > 0 {
				least = runtimeUnitMS << (i - 1)
			}
			return max(least, ran), jobs
		}
	}
	return ran, jobs
}
