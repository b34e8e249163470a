package estimate

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// PastUse is what the jobs of a leaf have held, by the hour of the log's clock. It counts workers
// that have ended; what others hold is seen in the state. A PastUse never changes once a view has it.
//
// With no User it is about an account, and only says when it was active: that cannot be added up
// from its users.
type PastUse struct {
	model.Association
	Since model.Instant `json:"since,omitempty"` // when it became active; 0: it is not
	Hours []HourUse     `json:"hours,omitempty"` // ascending

	Active int    `json:"-"` // jobs that run or could; derived
	Epoch  uint64 `json:"-"` // at which it was last replaced
}

// HourUse is what was held in one hour: amounts times milliseconds.
type HourUse struct {
	Hour   int64 `json:"hour"`             // of the log's clock, from 0
	Cores  int64 `json:"cores,omitempty"`  // times ms
	Memory int64 `json:"memory,omitempty"` // whole MiB times seconds
	GPUs   int64 `json:"gpus,omitempty"`   // thousandths times ms
	Active int64 `json:"active,omitempty"` // ms in which jobs ran or could have
}

// Hour returns what is noted of an hour.
func (u *PastUse) Hour(hour int64) *HourUse {
	i, ok := slices.BinarySearchFunc(u.Hours, hour, func(h HourUse, hour int64) int { return cmp.Compare(h.Hour, hour) })
	if !ok {
		u.Hours = slices.Insert(u.Hours, i, HourUse{Hour: hour})
	}
	return &u.Hours[i]
}

// Check returns an error if hours are out of order or amounts impossible.
func (u *PastUse) Check() error {
	for i, h := range u.Hours {
		if h.Cores < 0 || h.Memory < 0 || h.GPUs < 0 || h.Active < 0 || h.Active > HourMS || i > 0 &&
			u.Hours[i-1].Hour >= h.Hour {
			return fmt.Errorf("usage of %s in %s: hour %d is out of order or negative", u.User, u.Account, h.Hour)
		}
	}
	return nil
}

// Decay weighs the past: what was held an hour ago counts less than what was held now. It is made
// once for an instant. Buckets are weighed when they are read, so the result does not depend on
// when or how often usage was charged.
type Decay struct {
	now    model.Instant
	weight [UsedHours]uint64 // of the hours before this one, in 2^-30; [0] is the hour of now
	total  [UsedHours + 1]int64
}

// weightOne is the weight of the present.
const weightOne = 1 << 30

// Empty reports whether a leaf has used nothing in the hours that are known.
func (u *PastUse) Empty() bool {
	return !slices.ContainsFunc(u.Hours, func(h HourUse) bool { return h.Cores != 0 || h.Memory != 0 || h.GPUs != 0 })
}

// NewDecay returns the weights at an instant, half for what is a half-life old. Whole hours count
// alike, so that a bucket is weighed as a whole. 0 is no decay: everything in the last week counts
// fully.
func NewDecay(now model.Instant, halfLifeMS int64) *Decay {
	d := &Decay{now: now}
	for age := range d.weight {
		d.weight[age] = weightOne
		if halfLifeMS > 0 {
			d.weight[age] = halved(int64(age)*HourMS, halfLifeMS)
		}
		begin := max(0, (int64(now)/HourMS-int64(age))*HourMS)
		end := max(0, min(int64(now), (int64(now)/HourMS-int64(age)+1)*HourMS))
		d.total[age+1] = d.total[age] + int64(discount(uint64(end-begin), d.weight[age]))
	}
	return d
}

// halved returns 2^(-age/half) in 2^-30, by squaring: the fraction's binary digits select roots of
// a half.
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
var rootsOfHalf = [...]uint64{759250125, 902905651, 984625594, 1028218693, 1050733751, 1062175491, 1067942999,
	1070838486}

// discount returns n times a weight, rounded down.
func discount(n, weight uint64) uint64 {
	hi, lo := bits.Mul64(n, weight)
	return hi<<34 | lo>>30
}

// PastUsage returns what a leaf has used: amounts times weighted seconds, memory in MiB.
func (d *Decay) PastUsage(u *PastUse) (cores, memory, gpus int64) {
	for _, h := range u.Hours {
		age := int64(d.now)/HourMS - h.Hour
		if age < 0 || age >= UsedHours {
			continue
		}
		w := d.weight[age]
		cores += int64(discount(uint64(h.Cores), w)) / 1000
		memory += int64(discount(uint64(h.Memory), w))
		gpus += int64(discount(uint64(h.GPUs), w)) / 1000
	}
	return cores, memory, gpus
}

// ActiveTime returns for how many weighted seconds a leaf or an account has been active.
func (d *Decay) ActiveTime(u *PastUse) int64 {
	ms := int64(0)
	for _, h := range u.Hours {
		if age := int64(d.now)/HourMS - h.Hour; age >= 0 && age < UsedHours {
			ms += int64(discount(uint64(h.Active), d.weight[age]))
		}
	}
	if u.Since != 0 {
		ms += d.TimeSince(u.Since)
	}
	return ms / 1000
}

// TimeSince returns the weighted milliseconds from an instant to now. The use of a worker that
// still runs is its room times that.
func (d *Decay) TimeSince(from model.Instant) int64 {
	if from >= d.now {
		return 0
	}
	age := int64(d.now)/HourMS - int64(from)/HourMS
	if age >= UsedHours {
		return d.total[UsedHours]
	}
	begin := int64(from)/HourMS*HourMS + HourMS
	part := min(begin, int64(d.now)) - int64(from)
	return d.total[age] + int64(discount(uint64(part), d.weight[age]))
}

const (
	HourMS    = 3_600_000 // an hour in ms
	UsedHours = 168       // for a week it is known what was used
	// maxLeaves bounds the leaves of which usage is kept: with all hours, 400 MiB. When there are
	// more, leaves without use for a week are forgotten. If all are in use, the use of new leaves
	// is not counted until one can be forgotten.
	MaxLeaves = 65_536
)
