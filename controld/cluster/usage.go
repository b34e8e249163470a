package cluster

import (
	"cmp"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"sort"
)

// Leaf is a user in an account: what holdings and usage belong to.
type Leaf struct {
	Account string `json:"account"`
	User    string `json:"user"`
}

// Leaf returns to whom a job's holdings belong.
func (j *Job) Leaf() Leaf { return Leaf{j.Account, j.Owner.User} }

// Usage is what the jobs of a leaf have held, by the hour of the log's clock. It counts workers that have ended; what others hold is seen in
// the state. A Usage never changes once a view has it.
//
// With no User it is about an account, and only says when it was active: that cannot be added up from its users.
type Usage struct {
	Leaf
	Since Instant   `json:"since,omitempty"` // when it became active; 0: it is not
	Hours []HourUse `json:"hours,omitempty"` // ascending

	active int    // jobs that run or could; derived
	epoch  uint64 // at which it was last replaced
}

// HourUse is what was held in one hour: amounts times milliseconds.
type HourUse struct {
	Hour   int64 `json:"hour"`             // of the log's clock, from 0
	Cores  int64 `json:"cores,omitempty"`  // times ms
	Memory int64 `json:"memory,omitempty"` // whole MiB times seconds
	GPUs   int64 `json:"gpus,omitempty"`   // thousandths times ms
	Active int64 `json:"active,omitempty"` // ms in which jobs ran or could have
}

const (
	hourMS    = 3_600_000
	usedHours = 168 // for a week it is known what was used
	// maxLeaves bounds the leaves of which usage is kept: with all hours, 400 MiB. When there are more, those that have used nothing for a
	// week are forgotten; if all have, what new ones use is not counted until some have not.
	maxLeaves = 65_536
	mib       = 1 << 20
)

// Usages yields what each leaf has used, in no particular order.
func (v *View) Usages() iter.Seq[*Usage] { return v.usage.values() }

// charge notes that an amount was held since an instant by a leaf.
func (s *State) charge(of Leaf, held Vector, since Instant) {
	if held == (Vector{}) || since >= s.v.at {
		return
	}
	s.enter(of, since, func(h *HourUse, ms int64) {
		h.Cores += held.Cores * ms
		h.Memory += int64(held.Memory) / mib * ms / 1000
		h.GPUs += held.GPUs * ms
	})
}

// enter notes something for each hour since an instant.
func (s *State) enter(of Leaf, since Instant, add func(h *HourUse, ms int64)) {
	at, ok := s.usageSlot(of)
	if !ok {
		return
	}
	next := s.ownUsage(at, of)
	oldest := int64(s.v.at)/hourMS - usedHours + 1
	next.Hours = next.Hours[sort.Search(len(next.Hours), func(i int) bool { return next.Hours[i].Hour >= oldest }):]
	for hour := max(oldest, int64(since)/hourMS); hour*hourMS < int64(s.v.at); hour++ {
		begin, end := max(int64(since), hour*hourMS), min(int64(s.v.at), (hour+1)*hourMS)
		add(next.hour(hour), end-begin)
	}
}

// ownUsage returns the usage of a leaf ready to be written.
func (s *State) ownUsage(at int64, of Leaf) *Usage {
	old, _ := s.v.usage.get(at)
	if old != nil && old.epoch == s.epoch {
		return old
	}
	next := &Usage{Leaf: of}
	if old != nil {
		*next = *old
		next.Hours = append(make([]HourUse, 0, len(old.Hours)+1), old.Hours...)
	}
	next.epoch = s.epoch
	s.v.usage.set(at, next)
	return next
}

// updateActive keeps the time in step for which a leaf and its account have been active, with a job that has changed from old to next.
func (s *State) updateActive(old, next *Job) {
	was, is := old != nil && old.active(), next.active()
	if was == is {
		return
	}
	by := 1
	if was {
		by = -1
	}
	s.updateActiveLeaf(next.Leaf(), by)
	s.updateActiveLeaf(Leaf{Account: next.Account}, by)
}

// active reports whether a job runs, or could if there were room.
func (j *Job) active() bool { return j.Live() != nil || j.waits() && !isSetAside(j) }

func (s *State) updateActiveLeaf(of Leaf, by int) {
	at, ok := s.usageSlot(of)
	if !ok {
		return
	}
	u, _ := s.v.usage.get(at)
	if u != nil && u.active+by == 0 && u.Since != 0 {
		s.enter(of, u.Since, func(h *HourUse, ms int64) { h.Active += ms })
	}
	next := s.ownUsage(at, of)
	next.active = max(0, next.active+by)
	switch {
	case next.active == 0:
		next.Since = 0
	case next.Since == 0 && by > 0 && !s.loading:
		next.Since = s.v.at
	}
}

// hour returns what is noted of an hour.
func (u *Usage) hour(hour int64) *HourUse {
	i, ok := slices.BinarySearchFunc(u.Hours, hour, func(h HourUse, hour int64) int { return cmp.Compare(h.Hour, hour) })
	if !ok {
		u.Hours = slices.Insert(u.Hours, i, HourUse{Hour: hour})
	}
	return &u.Hours[i]
}

// usageSlot returns where the usage of a leaf is kept, false if there is no place.
func (s *State) usageSlot(of Leaf) (int64, bool) {
	if at, ok := s.usageAt[of]; ok {
		return at, true
	}
	if len(s.usageAt) >= maxLeaves {
		s.forgetUsage()
	}
	if len(s.usageAt) >= maxLeaves {
		return 0, false
	}
	s.usageAt[of] = s.nextUsage
	s.nextUsage++
	return s.nextUsage - 1, true
}

// forgetUsage drops the leaves that have used nothing for a week.
func (s *State) forgetUsage() {
	oldest := int64(s.v.at)/hourMS - usedHours
	for _, u := range slices.Collect(s.v.usage.values()) {
		if n := len(u.Hours); u.active == 0 && (n == 0 || u.Hours[n-1].Hour < oldest) {
			s.v.usage.drop(s.usageAt[u.Leaf])
			delete(s.usageAt, u.Leaf)
		}
	}
}

// loadUsage stores what a leaf has used, from a snapshot.
func (s *State) loadUsage(u *Usage) error {
	if err := u.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	at, ok := s.usageSlot(u.Leaf)
	known, _ := s.v.usage.get(at)
	if known != nil { // its jobs have been loaded
		u.active = known.active
	}
	if !ok || known != nil && (known.Hours != nil || known.Since != 0) {
		return fmt.Errorf("usage of %s in %s: there twice, or too many: %w", u.User, u.Account, ErrSnapshot)
	}
	s.v.usage.set(at, u)
	return nil
}

func (u *Usage) check() error {
	for i, h := range u.Hours {
		if h.Cores < 0 || h.Memory < 0 || h.GPUs < 0 || h.Active < 0 || h.Active > hourMS || i > 0 && u.Hours[i-1].Hour >= h.Hour {
			return fmt.Errorf("usage of %s in %s: hour %d is out of order or negative", u.User, u.Account, h.Hour)
		}
	}
	return nil
}

// checkUsage says whether usage is where it is looked for, and in order.
func (s *State) checkUsage(note func(error)) {
	want := map[Leaf]int{}
	for j := range s.v.jobs.values() {
		if j.active() {
			want[j.Leaf()]++
			want[Leaf{Account: j.Account}]++
		}
	}
	n := 0
	for at, u := range s.v.usage.from(0) {
		n++
		if u.active != want[u.Leaf] && len(s.usageAt) < maxLeaves || u.active == 0 && u.Since != 0 {
			note(fmt.Errorf("%s in %s has %d active jobs, made anew %d, since %d", u.User, u.Account, u.active, want[u.Leaf], u.Since))
		}
		note(u.check())
		if slot, ok := s.usageAt[u.Leaf]; !ok || slot != at {
			note(fmt.Errorf("usage of %s in %s is not at its slot", u.User, u.Account))
		}
	}
	if n != len(s.usageAt) {
		note(fmt.Errorf("%d leaves are known of %d with usage", len(s.usageAt), n))
	}
}

// sortedUsage returns what a snapshot has of usage, by account and user: slots, and leaves of which nothing is known, depend on what this
// replica has seen.
func (v *View) sortedUsage() []*Usage {
	var list []*Usage
	oldest := int64(v.at)/hourMS - usedHours
	for u := range v.usage.values() {
		if n := len(u.Hours); u.Since != 0 || n > 0 && u.Hours[n-1].Hour >= oldest {
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b *Usage) int { return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.User, b.User)) })
	return list
}

// Decay weighs the past: what was held an hour ago counts less than what was held now. It is made once for an instant; since buckets are
// weighed when they are read, the result does not depend on when or how often anything was charged.
type Decay struct {
	now    Instant
	weight [usedHours]uint64 // of the hours before this one, in 2^-30; [0] is the hour of now
	total  [usedHours + 1]int64
}

// weightOne is the weight of the present.
const weightOne = 1 << 30

// Empty reports whether a leaf has used nothing in the hours that are known.
func (u *Usage) Empty() bool {
	return !slices.ContainsFunc(u.Hours, func(h HourUse) bool { return h.Cores != 0 || h.Memory != 0 || h.GPUs != 0 })
}

// NewDecay returns the weights at an instant, half for what is a half-life old. Whole hours count alike, so that a bucket is weighed as a
// whole. 0 is no decay: everything in the last week counts fully.
func NewDecay(now Instant, halfLifeMS int64) *Decay {
	d := &Decay{now: now}
	for age := range d.weight {
		d.weight[age] = weightOne
		if halfLifeMS > 0 {
			d.weight[age] = halved(int64(age)*hourMS, halfLifeMS)
		}
		begin := max(0, (int64(now)/hourMS-int64(age))*hourMS)
		end := max(0, min(int64(now), (int64(now)/hourMS-int64(age)+1)*hourMS))
		d.total[age+1] = d.total[age] + int64(discount(uint64(end-begin), d.weight[age]))
	}
	return d
}

// halved returns 2^(-age/half) in 2^-30, by squaring: the fraction's binary digits select roots of a half.
func halved(age, half int64) uint64 {
	whole, rest := age/half, age%half
	if whole >= 30 {
		return 0
	}
	w := uint64(weightOne) >> whole
	for _, root := range rootsOfHalf {
		rest *= 2
		if rest >= half {
			rest -= half
			w = discount(w, root)
		}
	}
	return w
}

// rootsOfHalf are 2^(-1/2), 2^(-1/4), ... in 2^-30.
var rootsOfHalf = [...]uint64{759250125, 902905651, 984625594, 1028218693, 1050733751, 1062175491, 1067942999, 1070838486}

// discount returns n times a weight, rounded down.
func discount(n, weight uint64) uint64 {
	hi, lo := bits.Mul64(n, weight)
	return hi<<34 | lo>>30
}

// Of returns what a leaf has used: amounts times weighted seconds, memory in MiB.
func (d *Decay) Of(u *Usage) (cores, memory, gpus int64) {
	for _, h := range u.Hours {
		age := int64(d.now)/hourMS - h.Hour
		if age < 0 || age >= usedHours {
			continue
		}
		w := d.weight[age]
		cores += int64(discount(uint64(h.Cores), w)) / 1000
		memory += int64(discount(uint64(h.Memory), w))
		gpus += int64(discount(uint64(h.GPUs), w)) / 1000
	}
	return cores, memory, gpus
}

// Active returns for how many weighted seconds a leaf or an account has been active.
func (d *Decay) Active(u *Usage) int64 {
	ms := int64(0)
	for _, h := range u.Hours {
		if age := int64(d.now)/hourMS - h.Hour; age >= 0 && age < usedHours {
			ms += int64(discount(uint64(h.Active), d.weight[age]))
		}
	}
	if u.Since != 0 {
		ms += d.Since(u.Since)
	}
	return ms / 1000
}

// Since returns how many weighted milliseconds there were from an instant to now: what a worker that still runs has used is its room times
// that.
func (d *Decay) Since(from Instant) int64 {
	if from >= d.now {
		return 0
	}
	age := int64(d.now)/hourMS - int64(from)/hourMS
	if age >= usedHours {
		return d.total[usedHours]
	}
	begin := int64(from)/hourMS*hourMS + hourMS
	part := min(begin, int64(d.now)) - int64(from)
	return d.total[age] + int64(discount(uint64(part), d.weight[age]))
}
