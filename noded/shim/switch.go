package shim

import (
	"cmp"
	"errors"
	"time"

	"github.com/opencontainers/cgroups"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/jobsocket"
)

// # Pause and go on
//
// A worker is told to pause under an odd number, and to go on under the next one. Processes of its
// tasks may have said on the job socket that they come by pause points. Then these are asked. The
// worker has paused when all of them have said so, and their GPU memory is free. Otherwise, or if
// one of them does not come by in time, all of its processes are frozen, if the daemon allows that.
// Their GPU memory stays. If it does not, because they hold some, the driver moves it to the host
// first (gpumemory.go). A worker that can do nothing of this goes on, and the daemon is told why.

// switching is what is known of the last order to pause or to go on.
type switching struct {
	container.Switching
	order container.SwitchOrder
	began time.Time
	due   <-chan time.Time // when the processes that were asked must have answered; nil: none is waited for
	froze bool             // all processes are frozen
	stops bool             // the worker was told to stop while it was to pause
}

// resumeWithin is how long processes may take to go on before the worker counts as going on.
const resumeWithin = 30 * time.Second

// switchTo carries out an order, once.
func (sup *supervisor) switchTo(o container.SwitchOrder) error {
	s := &sup.switching
	switch {
	case sup.state != container.Running:
		return errors.New("the worker does not run")
	case o.Number <= s.Ordered:
		return nil
	case sup.image.phase == saving:
		return errors.New("the worker is being saved")
	case o.Pause():
		sup.begin(o)
		sup.pause()
		return nil
	}
	if err := sup.setCores(o.Cores); err != nil {
		return err
	}
	sup.begin(o)
	sup.goOn()
	return nil
}

func (sup *supervisor) begin(o container.SwitchOrder) {
	s := &sup.switching
	s.order, s.began, s.due = o, time.Now(), nil
	s.Ordered, s.Problem = o.Number, ""
}

// pause asks the processes that come by pause points, or freezes all.
func (sup *supervisor) pause() {
	asked := sup.job.Ready()
	if len(asked) == 0 {
		sup.freeze("none of its processes has announced pause points")
		return
	}
	sup.switching.due = time.After(time.Duration(sup.switching.order.WithinMS) * time.Millisecond)
	sup.job.Tell(asked, jobsocket.Order{Do: jobsocket.DoPause, Number: sup.switching.Ordered})
}

// goOn lets frozen processes run with their GPU memory.
func (sup *supervisor) goOn() {
	sup.thaw()
	sup.takeMemoryBack()
	if !sup.memory.away() {
		sup.askToGoOn()
	}
}

// askToGoOn asks processes that have paused to go on.
func (sup *supervisor) askToGoOn() {
	s := &sup.switching
	sup.job.Tell(sup.job.Ready(), jobsocket.Order{Do: jobsocket.DoResume, Number: s.Ordered})
	s.due = time.After(resumeWithin)
	sup.checkSwitch()
}

// checkSwitch looks whether all processes have done what was ordered.
func (sup *supervisor) checkSwitch() {
	s := &sup.switching
	if s.Done == s.Ordered || sup.memory.away() {
		return
	}
	list := sup.job.Ready()
	if !s.order.Pause() {
		for _, m := range list {
			if m.Paused() {
				return
			}
		}
		sup.switched(s.Means)
		return
	}
	for _, m := range list {
		if m.Done < s.Ordered {
			return
		}
	}
	switch {
	case len(list) > 0:
		_ = sup.freezeTasks() // so that nothing else of it computes: its cores go to others
		sup.switched(container.Cooperative)
	case s.due != nil:
		sup.freeze("its processes that had announced pause points have ended")
	}
}

// switchOverdue is called when processes have not answered in time.
func (sup *supervisor) switchOverdue() {
	if sup.switching.order.Pause() {
		sup.freeze("it did not reach a pause point in time")
		return
	}
	sup.switched(sup.switching.Means)
}

// freeze stops all processes where they are, if that is allowed. why says what else cannot be done.
func (sup *supervisor) freeze(why string) {
	s := &sup.switching
	s.due = nil
	if sup.settings.Place && s.order.NoFreeze != "" {
		sup.cannotPause(why + ", and it cannot be frozen: " + s.order.NoFreeze + "; the GPU memory of steps cannot be moved")
		return
	}
	if s.order.NoFreeze != "" || sup.memory.away() {
		sup.moveMemoryOut(why + ", and it cannot be frozen: " + cmp.Or(s.order.NoFreeze, "its GPU memory was just being "+
			"restored"))
		return
	}
	if err := sup.freezeTasks(); err != nil {
		sup.cannotPause(why + ", and it cannot be frozen: " + err.Error())
		return
	}
	sup.switched(container.Frozen)
}

func (sup *supervisor) freezeTasks() error {
	if sup.switching.froze {
		return nil
	}
	if sup.settings.Place { // with its steps
		sup.switching.froze = true
		err := sup.shared.freeze(cgroups.Frozen)
		if err != nil {
			sup.thaw()
		}
		return err
	}
	for _, t := range sup.tasks {
		if t.State != container.Running {
			continue
		}
		sup.switching.froze = true
		if err := t.container.freeze(); err != nil {
			sup.thaw()
			return err
		}
	}
	return nil
}

// cannotPause notes why the worker goes on although it was to pause.
func (sup *supervisor) cannotPause(why string) {
	sup.switching.Problem = why
	sup.announce()
}

// thaw lets frozen processes run.
func (sup *supervisor) thaw() {
	if !sup.switching.froze {
		return
	}
	sup.switching.froze = false
	if sup.settings.Place {
		_ = sup.shared.freeze(cgroups.Thawed) // the daemon sweeps what it leaves
		return
	}
	for _, t := range sup.tasks {
		if t.State == container.Running {
			_ = t.container.thaw() // it was not frozen, or has ended
		}
	}
}

// setCores binds the worker to other cores; "" leaves it where it is.
func (sup *supervisor) setCores(cores string) error {
	switch {
	case cores == "":
		return nil
	case sup.shared != nil:
		return sup.shared.setCores(cores, sup.tasks)
	}
	return sup.tasks[0].container.setCores(cores)
}

// wake has a worker that must stop run again, so that it can save and leave. Processes that have
// paused are told so, and do not take their GPUs again.
func (sup *supervisor) wake() {
	if !sup.switching.order.Pause() {
		return
	}
	sup.switching.due, sup.switching.stops = nil, true
	sup.thaw()
	sup.takeMemoryBack()
	sup.job.Tell(sup.job.Ready(), jobsocket.Order{Do: jobsocket.DoStop})
}

// switched notes that the order was carried out.
func (sup *supervisor) switched(by container.Means) {
	s := &sup.switching
	s.due, s.Done, s.Means, s.Problem = nil, s.Ordered, by, ""
	s.TookMS = time.Since(s.began).Milliseconds()
	sup.announce()
}

// announce tells the daemons about a switch, or about what was used beside the ranks, without an order.
func (sup *supervisor) announce() {
	a := sup.answer()
	a.Changed = true
	sup.mu.Lock()
	defer sup.mu.Unlock()
	for _, c := range sup.clients {
		_ = c.send(a) // a daemon that is gone asks when it is back
	}
}

// hear takes what a process of the job says. One that comes by its first pause point while the
// worker is paused, or is to pause, pauses too.
func (sup *supervisor) hear(s jobsocket.Saying) {
	switch m := s.From; {
	case s.Gone:
	case s.Say == jobsocket.SayReady && !m.Ready:
		m.Ready = true
		switch {
		case sup.switching.stops:
			sup.job.Tell([]*jobsocket.Member{m}, jobsocket.Order{Do: jobsocket.DoStop})
		case sup.switching.order.Pause():
			sup.job.Tell([]*jobsocket.Member{m}, jobsocket.Order{Do: jobsocket.DoPause, Number: sup.switching.Ordered})
		}
	case s.Say == jobsocket.SayPaused || s.Say == jobsocket.SayResumed:
		// a gang agrees on what was said to another worker, so that it may be ahead of the order here
		if s.Number <= sup.switching.Ordered+1 && (s.Say == jobsocket.SayPaused) == (s.Number%2 == 1) {
			m.Done = max(m.Done, s.Number)
		}
	}
	sup.checkSwitch()
}
