package measure

import (
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/profile"
	"github.com/rota-hpc/rota/noded/progress"
	"github.com/rota-hpc/rota/noded/reconcile"
	"github.com/rota-hpc/rota/noded/report"
)

// gpuSharing describes how the GPU of a worker is shared. A rate counts for one sharing only. The
// zero value says that nothing can be measured now.
type gpuSharing struct {
	measurable bool // it runs, and so do all others on its GPU
	number     int  // of the packing; 0: it has the GPU for itself
	turn       int  // number of its last suspension or resumption
}

// measuring is the measurement in progress of a worker that may share its GPU.
type measuring struct {
	gpuSharing
	since   time.Time          // when it began
	steps   progress.RateMeter // since then
	stepped bool               // a step was reported since then
	rate    int64              // of steps, since then; 0: not known
	reports bool               // the attempt reports steps, so that its rhythm does not matter
	window  profile.Window
	pace    profile.Pace
}

// begin starts a new measurement if the sharing has changed. Within a packing the pace of sampling
// goes on.
func (m *measuring) begin(s gpuSharing, now time.Time) {
	if s == m.gpuSharing {
		return
	}
	if s.number != m.number {
		m.pace = profile.Pace{}
	}
	m.gpuSharing, m.since, m.steps, m.stepped, m.rate = s, now, progress.RateMeter{}, false, 0
	m.window.Restart(now.UnixMilli())
}

// reportStep takes a reported training step. A step from before the present sharing is ignored.
func (m *measuring) reportStep(known *journal.Measures, step int64, written time.Time) {
	m.reports = true
	if !m.measurable || written.Before(m.since) || m.byRhythm(known) {
		return
	}
	if rate, known := m.steps.Measure(step, written, model.ProfileAfterMS*time.Millisecond); known {
		m.rate = rate
	}
	if !m.stepped { // samples from before the first step may show the program starting
		m.stepped = true
		m.window.Restart(time.Now().UnixMilli())
	}
}

// sharingOf returns how the GPU of a worker is shared now. It is measurable only if the GPU's
// present holders are exactly the packing that the controllers ordered. So no job is about to come, to
// leave or to pause.
func sharingOf(w *reconcile.Worker, all []reconcile.Worker) gpuSharing {
	if !w.Runs() {
		return gpuSharing{}
	}
	s := gpuSharing{measurable: true}
	if p := w.Desired.Packing; p != nil {
		s.number = p.Number
	}
	if w.Desired.Switch != nil {
		s.turn = w.Desired.Switch.Number
	}
	others := 0
	for i := range all {
		o := &all[i]
		switch {
		case o.ID == w.ID || !o.Exists():
		case o.Desired == nil:
			return gpuSharing{} // it is unwanted and about to be killed
		case !slices.Contains(o.Desired.GPUs, w.Desired.GPUs[0]) || o.Paused():
		case !o.Runs() || o.Desired.Packing == nil || o.Desired.Packing.Number != s.number:
			return gpuSharing{} // another job comes or leaves
		default:
			others++
		}
	}
	if (others > 0) != (w.Desired.Packing != nil) {
		return gpuSharing{}
	}
	return s
}

// due reports whether a measurement is missing: the profile of a job alone, or its rate in the
// present packing. Each is measured once.
func (m *measuring) due(known *journal.Measures) bool {
	switch {
	case !m.measurable:
		return false
	case m.number == 0:
		return known == nil || known.Profile == nil
	case known == nil:
		return true
	default:
		return known.Packed == nil || known.Packed.Number != m.number
	}
}

// byRhythm reports whether a worker's rate is taken from the rhythm of its GPU. That is for jobs
// that report no steps. Once a profile exists its method is kept.
func (m *measuring) byRhythm(known *journal.Measures) bool {
	if known != nil && known.Profile != nil {
		return known.Rhythm
	}
	return m.number == 0 && !m.reports
}

// measures returns the measures of a worker with the missing one filled in; news is false while
// that one is not certain yet.
func (m *measuring) measures(known *journal.Measures) (next journal.Measures, news bool) {
	if !m.due(known) {
		return journal.Measures{}, false
	}
	if known != nil {
		next = *known
	}
	// 1. The rate: of reported steps, or of the GPU's rhythm.
	rate, rhythm := m.rate, m.byRhythm(known)
	if rhythm {
		rate, _ = m.window.Rhythm()
	}
	// 2. In a packing only the rate is missing.
	if m.number != 0 {
		ok := rate > 0
		// No job is faster beside others than alone. A rhythm that says so by more than a tenth was
		// mistaken; a smaller excess is noise and is cut off.
		if p := next.Profile; p != nil {
			ok = ok && (!rhythm || rate <= p.Rate*11/10)
			rate = min(rate, p.Rate)
		}
		next.Packed = &model.PackedRate{Number: m.number, Rate: rate}
		return next, ok
	}
	// 3. Alone on the GPU, the profile also needs the mean utilisation and the peak of memory.
	use, haveUse := m.window.Mean()
	memory, haveMemory := m.window.Peak()
	next.Profile, next.Rhythm = &model.Profile{Utilisation: use, Memory: jobspec.Bytes(memory), Rate: rate}, rhythm
	return next, rate > 0 && haveUse && haveMemory
}

// recordMeasures writes new measures of running workers to the journal and queues them for a report.
// The journal comes first, without the lock because it waits for the disk.
func (m *Meter) recordMeasures() {
	all := m.Node.Workers()
	for i := range all {
		w := &all[i]
		if w.Actual != container.Running || !w.MayShare() {
			continue
		}
		// 1. Continue the measurement, or begin again if another job has come or left.
		workers, unlock := m.lock()
		rates := &workers.of(w.ID).rates
		rates.begin(sharingOf(w, all), time.Now())
		next, news := rates.measures(w.Entry.Measures)
		unlock()
		if !news {
			continue
		}
		// 2. Keep a result, and then report it. A worker may have ended meanwhile.
		if err := m.Journal.Append(journal.Record{Op: journal.Measured, ID: w.ID.String(), Measures: &next}); err != nil {
			m.logOf(w.ID).Warn("cannot record measurements in the journal; trying again", "err", err)
			continue
		}
		if m.Node.SetMeasures(w.ID, &next) {
			m.Report(w.ID, &next)
		}
	}
}

// Report queues the measures of a worker for a report; nil: it has none. A repeated report changes
// nothing.
func (m *Meter) Report(id container.ID, known *journal.Measures) {
	if known == nil {
		return
	}
	if known.Packed != nil {
		m.Outbox.Put(id, (*report.Packed)(known.Packed))
	} else if known.Profile != nil {
		m.Outbox.Put(id, (*report.Profile)(known.Profile))
	}
}
