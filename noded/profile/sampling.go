package profile

// Jitter returns for how many ms to wait until the next sample, by a random number in [0, 1): 20
// samples a second come at irregular intervals, see [Periods].
func Jitter(random float64) int64 { return slot/2 + int64(random*slot) }

const (
	// BurstMS is for how many milliseconds a GPU is sampled at 20 Hz at a time. Reason: as long as a rate
	// is measured.
	BurstMS = 30_000
	// maxBursts is how often that is done until the rhythm is found. Reason: a program that has no
	// rhythm for four minutes has none.
	maxBursts = 8
	// pauseMS is how many milliseconds pass after the first burst; the pause doubles each time. Reason:
	// a program may need some time until its mini-batches are even.
	pauseMS = 30_000
	// maxPoints bounds the samples of a burst that are kept: more than 20 Hz for BurstMS.
	maxPoints = 1024
	// longestSpan is for how many milliseconds at most one sample speaks. Reason: those at 1 Hz may be
	// a little late.
	longestSpan = 2000
)

// Pace says when a GPU is sampled at 20 Hz. The zero value is at the beginning.
type Pace struct {
	bursts       int
	until, again int64 // ms: the end of the last burst, and when the next one may begin
}

// Fast reports whether a GPU is to be sampled at 20 Hz now, and whether that begins now. It begins
// while the GPU is in use.
func (p *Pace) Fast(now int64, inUse bool) (fast, begins bool) {
	if now < p.until {
		return true, false
	}
	if !inUse || p.bursts == maxBursts || now < p.again {
		return false, false
	}
	p.until = now + BurstMS
	p.again = p.until + pauseMS<<p.bursts
	p.bursts++
	return true, true
}

// Window sums up samples of what one worker makes of its GPU. Its memory is bounded.
type Window struct {
	peak        int64 // bytes
	noMemory    bool  // a sample since began did not have it
	any         bool
	began, last int64 // ms
	covered     int64 // ms of the time since began of which the utilisation is known
	busy        int64 // the same, in thousandths of it

	memory, utilisation []Point // of the present burst
}

// Unknown is a quantity of a sample that is not known.
const Unknown = -1

// Add adds a sample: the utilisation since the one before in thousandths, and the memory in bytes.
// It is Unknown or not negative. A fast one belongs to a burst.
func (w *Window) Add(now, utilisation, memory int64, fast bool) {
	span := min(now-w.last, longestSpan)
	if w.any && span > 0 && utilisation >= 0 {
		w.covered, w.busy = w.covered+span, w.busy+span*min(utilisation, 1000)
	}
	w.any, w.last, w.peak = true, now, max(w.peak, memory)
	w.noMemory = w.noMemory || memory < 0
	if !fast {
		w.memory, w.utilisation = nil, nil
		return
	}
	if len(w.memory) < maxPoints {
		w.memory = append(w.memory, Point{now, float64(memory)})
		w.utilisation = append(w.utilisation, Point{now, float64(utilisation)})
	}
}

// InUse reports whether the GPU has been used.
func (w *Window) InUse() bool { return w.busy > 0 || w.peak > 0 }

// Restart has the mean begin anew. The peak stays.
func (w *Window) Restart(now int64) {
	w.began, w.last, w.covered, w.busy, w.noMemory = now, now, 0, 0, false
	w.memory, w.utilisation = nil, nil
}

// Mean returns the mean utilisation since Restart, in thousandths; false if it is known for less
// than half of that time.
func (w *Window) Mean() (int64, bool) {
	if w.covered == 0 || 2*w.covered < w.last-w.began {
		return 0, false
	}
	return w.busy / w.covered, true
}

// Peak returns the largest memory in bytes; false if a sample did not have it.
func (w *Window) Peak() (int64, bool) { return w.peak, w.any && !w.noMemory }

// Rhythm returns how many mini-batches the worker does in 1,000 s, by the minima of the GPU's memory
// or else those of its utilisation; false while there is no whole burst, if neither has a period, or
// if both have and they differ.
func (w *Window) Rhythm() (rate int64, known bool) {
	if n := len(w.memory); n == 0 || w.memory[n-1].At-w.memory[0].At < BurstMS*9/10 {
		return 0, false
	}
	byMemory, one := Periods(w.memory)
	byUse, other := Periods(w.utilisation)
	switch {
	case !one && !other:
		return 0, false
	case !one:
		return byUse, true
	case other && apart(float64(byMemory), float64(byUse)) > agree:
		return 0, false
	}
	return byMemory, true
}
