package profile

// Jitter returns how many ms to wait until the next sample, by a random number in [0, 1). So 20
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

// Unknown is a quantity of a sample that is not known.
const Unknown = -1

// average is the mean of a quantity over the time in which it is known, and its peak.
type average struct {
	last    int64 // ms: the sample before; 0: there was none
	covered int64 // ms
	sum     float64
	peak    int64
}

// add adds a sample, which speaks for the time since the one before.
func (a *average) add(now, value int64) {
	if a.last != 0 && now > a.last && value >= 0 {
		span := min(now-a.last, longestSpan)
		a.covered, a.sum = a.covered+span, a.sum+float64(span)*float64(value)
	}
	a.last, a.peak = now, max(a.peak, value)
}

// mean returns the mean, 0 if none is known.
func (a *average) mean() int64 { return int64(a.sum / float64(max(1, a.covered))) }

// Totals sums up what a worker uses, from its first sample to its last. Its memory is bounded.
type Totals struct {
	utilisation, memory average
	cpu, system, cpuAt  int64 // the sample before, as AddCPU has it; 0: there was none
	peakCores           int64
}

// AddGPU adds a sample of the worker's GPUs. utilisation is their mean since the sample before, in
// thousandths. memory is the sum that the worker uses of all of them, in bytes. Each may be
// Unknown.
func (t *Totals) AddGPU(now, utilisation, memory int64) {
	t.utilisation.add(now, utilisation)
	t.memory.add(now, memory)
}

// AddCPU adds the processor time that the worker has had by now, and the part of it that the system
// had, in ms as now.
func (t *Totals) AddCPU(now, cpu, system int64) {
	if t.cpuAt != 0 && now > t.cpuAt && cpu >= t.cpu {
		t.peakCores = max(t.peakCores, (cpu-t.cpu)*1000/(now-t.cpuAt))
	}
	t.cpu, t.system, t.cpuAt = cpu, system, now
}

// Pause says that the worker pauses: the time until the next sample says nothing about it.
func (t *Totals) Pause() { t.utilisation.last, t.memory.last, t.cpuAt = 0, 0, 0 }

// Sums are the sums by now: 0 is what is not known or was not used.
type Sums struct {
	CPU       int64 // ms of processor time
	System    int64 // ms, the part of it that the system had
	PeakCores int64 // thousandths of a core
	// of the GPUs: utilisation in thousandths and memory in bytes, mean and most
	Utilisation, PeakUtilisation int64
	Memory, PeakMemory           int64
}

// Usage returns the sums by now.
func (t *Totals) Usage() Sums {
	return Sums{CPU: t.cpu, System: t.system, PeakCores: t.peakCores, Utilisation: t.utilisation.mean(),
		PeakUtilisation: t.utilisation.peak, Memory: t.memory.mean(), PeakMemory: t.memory.peak}
}

// Window sums up samples of what one worker makes of its GPU while its sharing stays the same. Its
// memory is bounded.
type Window struct {
	utilisation average
	began       int64 // ms
	peak        int64 // bytes
	noMemory    bool  // a sample since began did not have it
	any         bool

	memory, use []Point // of the present burst
}

// Add adds a sample: the utilisation since the one before in thousandths, and the memory in bytes.
// Each may be Unknown. A fast one belongs to a burst.
func (w *Window) Add(now, utilisation, memory int64, fast bool) {
	w.utilisation.add(now, utilisation)
	w.any, w.peak, w.noMemory = true, max(w.peak, memory), w.noMemory || memory < 0
	if !fast {
		w.memory, w.use = nil, nil
		return
	}
	w.memory, w.use = appendKnown(w.memory, now, memory), appendKnown(w.use, now, utilisation)
}

// appendKnown adds a point to a series, unless its value is Unknown or there are enough.
func appendKnown(series []Point, now, value int64) []Point {
	if value < 0 || len(series) == maxPoints {
		return series
	}
	return append(series, Point{now, float64(value)})
}

// InUse reports whether the GPU has been used.
func (w *Window) InUse() bool { return w.utilisation.peak > 0 || w.peak > 0 }

// Restart has the mean begin anew. The peak of memory stays.
func (w *Window) Restart(now int64) {
	w.began, w.utilisation, w.noMemory = now, average{last: now}, false
	w.memory, w.use = nil, nil
}

// Mean returns the mean utilisation since Restart, in thousandths; false if it is known for less
// than half of that time.
func (w *Window) Mean() (int64, bool) {
	u := &w.utilisation
	return u.mean(), u.covered > 0 && 2*u.covered >= u.last-w.began
}

// Peak returns the largest memory in bytes; false if a sample did not have it.
func (w *Window) Peak() (int64, bool) { return w.peak, w.any && !w.noMemory }

// Rhythm returns how many mini-batches the worker does in 1,000 s. It takes the period between two
// minima of GPU memory or, if memory is flat, of GPU utilisation. It returns false while no burst
// is whole, if neither has a period, or if the two differ.
func (w *Window) Rhythm() (rate int64, known bool) {
	byMemory, one := wholeBurst(w.memory)
	byUse, other := wholeBurst(w.use)
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

// wholeBurst returns the rate of a series that is as long as a burst.
func wholeBurst(series []Point) (rate int64, known bool) {
	if n := len(series); n == 0 || series[n-1].At-series[0].At < BurstMS*9/10 {
		return 0, false
	}
	return Periods(series)
}
